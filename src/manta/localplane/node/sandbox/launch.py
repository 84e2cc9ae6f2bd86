"""The launcher: a small process that forks the init of every Pod.

Forking from here instead of from the agent is fast (few pages) and safe (no threads, no event loop), and
all init processes share the memory of this one. Standard library only. It has three modes:

    root    uses the machine's own network; ends when the agent closes the socket, while Pods keep running
    user    for unprivileged users: runs in its own user and network namespace, which holds the Pods'
            bridge; so it keeps running when the agent ends, and the next agent connects to launcher.sock
    plain   no namespaces
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from manta.localplane.node.host import libc, wire
from manta.localplane.node.host.netlink import Netlink
from manta.localplane.node.sandbox.init import Init

if TYPE_CHECKING:
    from _socket import socket as _Socket  # noqa: N812 - a type here

_MOUNT_FLAGS = libc.MS_NOSUID | libc.MS_NODEV
_MANY = 1 << 20
SOCKET_NAME = "launcher.sock"


def main() -> NoReturn:
    """Arguments: source path, mark, directory, mode. Descriptor 0 is the first agent's socket."""
    from _socket import socket as plain_socket

    directory, mode = sys.argv[3:5]
    channel = plain_socket(fileno=os.dup(0))
    libc.set_process_name("manta-launch")
    _detach_stdio(directory)
    libc.become_subreaper()
    _set_signals()
    error_text = _enter_user_namespace() if mode == "user" else ""
    listener = wire.listen(directory, SOCKET_NAME) if mode == "user" and not error_text else None
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection would write to pages that all Pods share
    serve(channel, error_text)
    while listener is not None:
        serve(wire.accept(listener), "")
    sys.exit(0)


def serve(channel: _Socket, error_text: str) -> None:
    """Execute the requests of one agent until it disconnects."""
    while (received := wire.receive(channel)) is not None:
        message, _ = received
        try:
            if error_text:
                raise OSError(error_text)  # noqa: TRY301 - replied like any other failure
            answer = _handle(message, channel)
        except OSError as error:
            answer = {"error": str(error)}
        if answer is not None:
            with suppress(OSError):
                wire.send(channel, {"reply": message["seq"], **answer})
    channel.close()


def _set_signals() -> None:
    """For the launcher and for every init: set before the fork, they cost an init no memory."""
    launcher = os.getpid()

    def reap(*_: object) -> None:
        """Reap ended Pods. An init inherits this handler, but waits for its children itself."""
        with suppress(ChildProcessError):
            while os.getpid() == launcher and os.waitpid(-1, os.WNOHANG)[0]:
                continue

    signal.signal(signal.SIGCHLD, reap)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def _enter_user_namespace() -> str:
    """Become root of a new user and network namespace. Returns an error message, or ""."""
    uid, gid = os.getuid(), os.getgid()
    try:
        libc.unshare(libc.CLONE_NEWUSER | libc.CLONE_NEWNET | libc.CLONE_NEWNS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
        libc.mount("none", "/", flags=libc.MS_REC | libc.MS_PRIVATE)
    except OSError as error:
        return f"no user namespace: {error}"
    return ""


def _handle(message: dict[str, Any], channel: _Socket) -> dict[str, Any] | None:
    """The reply, or None if a forked helper sends it."""
    match message["op"]:
        case "hello":
            return {"pid": os.getpid()}
        case "network":
            where = (message["pid"], message["address"], message["gateway"])
            _in_child(lambda: configure_network(*where))
            return {}
        case "forwarding":
            _in_child(_switch_forwarding_on)
            return {}
        case "socket":
            _in_child(lambda: _send_socket(message, channel))
            return None
        case "create":
            pid = create_sandbox(message)
            _in_child(lambda: _write_record(message, pid))
            return {"pid": pid}
        case unknown:
            return {"error": f"unknown operation {unknown!r}"}


def _in_child(task: Callable[[], None]) -> None:
    """Run `task` in a forked process, because pages that the launcher writes to are no longer shared with
    the Pods. Raises OSError with the error of the child."""
    errors, errors_child = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - reported to the parent
            os.write(errors_child, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(errors_child)
    failure = os.read(errors, 4096)
    os.close(errors)
    if failure:
        raise OSError(failure.decode())


def _send_socket(message: dict[str, Any], channel: _Socket) -> None:
    """Create a socket in the launcher's network namespace or a Pod's, and pass it to the agent."""
    from _socket import socket as plain_socket

    if message["pid"]:
        _enter_network_of(message["pid"])
    made = plain_socket(message["family"], message["kind"], message["protocol"])
    wire.send(channel, {"reply": message["seq"]}, (made.fileno(),))


def _switch_forwarding_on() -> None:
    """In the launcher's network namespace, so that packets of Pods can leave through its uplink."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _enter_network_of(pid: int) -> None:
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    libc.setns(there, libc.CLONE_NEWNET)
    os.close(there)


def configure_network(pid: int, address: str, gateway: str) -> None:
    """Configure eth0 and the default route of the Pod. The process stays in the Pod's namespace."""
    _enter_network_of(pid)
    netlink = Netlink()
    netlink.set_up("lo")
    netlink.add_address("eth0", IPv4Interface(address))
    netlink.set_up("eth0")
    netlink.add_default_route(IPv4Address(gateway))
    netlink.close()


# ── sandboxes ────────────────────────────────────────────────────────────────────────────
def create_sandbox(spec: dict[str, Any]) -> int:
    """Fork the init of one Pod; return its pid once its namespaces exist. Raises OSError.

    An intermediate child changes the pid namespace for its own child and ends; the launcher, as subreaper,
    inherits the init. (A process in a user namespace may not return from a pid namespace.)
    """
    ready, ready_child = os.pipe2(os.O_CLOEXEC)
    number, number_child = os.pipe2(os.O_CLOEXEC)
    if os.fork() == 0:
        _fork_init(spec, number_child, ready_child)
    os.close(ready_child)
    os.close(number_child)
    pid = os.read(number, 64)
    word = os.read(ready, 4096)
    os.close(number)
    os.close(ready)
    if word != b"ready":
        raise OSError(word.decode() or "the Pod's init process died at its start")
    return int(pid)


def _fork_init(spec: dict[str, Any], number: int, ready: int) -> NoReturn:
    try:
        # A Pod that kept sockets of the launcher would hide the launcher's end from the agent.
        first, second = sorted((number, ready))
        for low, high in ((3, first), (first + 1, second), (second + 1, _MANY)):
            os.closerange(low, high)
        if spec["isolated"]:
            libc.unshare(libc.CLONE_NEWPID)
        pid = os.fork()
        if pid == 0:
            os.close(number)
            _become_init(spec, ready)
        os.write(number, str(pid).encode())
    except BaseException as error:  # noqa: BLE001 - a forked child must never return into main
        os.write(ready, f"{type(error).__name__}: {error}".encode())
    os._exit(0)


def _become_init(spec: dict[str, Any], ready: int) -> NoReturn:
    try:
        os.setsid()
        libc.set_process_name("manta-pod")
        if spec["isolated"]:
            _isolate(spec)
        else:
            libc.become_subreaper()
        init = Init(spec["dir"], isolated=spec["isolated"])
        os.write(ready, b"ready")
        os.close(ready)
        init.run()
    except BaseException as error:  # noqa: BLE001 - as above
        os.write(ready, f"{type(error).__name__}: {error}".encode())
        os._exit(1)


def _isolate(spec: dict[str, Any]) -> None:
    network = 0 if spec.get("host_network") else libc.CLONE_NEWNET
    libc.unshare(libc.CLONE_NEWNS | libc.CLONE_NEWUTS | libc.CLONE_NEWIPC | network)
    libc.mount("none", "/", flags=libc.MS_REC | libc.MS_PRIVATE)
    libc.mount("proc", "/proc", "proc", _MOUNT_FLAGS | libc.MS_NOEXEC)
    if not spec.get("host_network"):
        libc.set_hostname(spec["hostname"])
    shm = f"{spec['dir']}/shm"
    if not os.access(shm, os.F_OK):
        os.mkdir(shm)  # noqa: PTH102 - see init.py on imports
    libc.mount("tmpfs", shm, "tmpfs", _MOUNT_FLAGS, "mode=1777")


def _write_record(spec: dict[str, Any], pid: int) -> None:
    record = {**spec["record"], "pid": pid, "start_time": start_time(pid)}
    wire.write_record(Path(spec["dir"]) / "sandbox.json", record)


def _detach_stdio(directory: str) -> None:
    """The launcher and the Pods can outlive the agent and must not hold its terminal or pipes."""
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(f"{directory}/launcher.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (null, 1), (log, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(log)


# ── process identity ─────────────────────────────────────────────────────────────────────
def start_time(pid: int) -> int:
    """Start time in clock ticks since boot; together with the pid it identifies a process."""
    return int(_stat(pid)[19])


def is_zombie(pid: int) -> bool:
    return _stat(pid)[0] == "Z"


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


if __name__ == "__main__":
    main()
