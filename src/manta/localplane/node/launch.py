"""`python -m manta.localplane.node.launch`: a small process that forks the init of every Pod.

Forking from here instead of from the agent is quick (few pages) and safe (no threads, no event loop),
and all init processes share this one's memory. Standard library only. Three ways of working:

    root    the machine's own network; ends when the agent's end of the socket closes, Pods stay
    user    for ordinary users: lives in a user and network namespace of its own, which holds the
            Pods' bridge; so it stays when the agent ends, and the next one finds it at launcher.sock
    plain   no namespaces at all
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

from manta.localplane.node import libc, wire
from manta.localplane.node.init import Init
from manta.localplane.node.netlink import Netlink

if TYPE_CHECKING:
    from _socket import socket as _Socket  # noqa: N812 - a type here

_MOUNT_FLAGS = libc.MS_NOSUID | libc.MS_NODEV
_MANY = 1 << 20
SOCKET_NAME = "launcher.sock"


def main() -> NoReturn:
    """Arguments: source path, mark, directory, way. Descriptor 0 is the first agent's socket."""
    from _socket import socket as plain_socket

    directory, way = sys.argv[3:5]
    channel = plain_socket(fileno=os.dup(0))
    libc.set_process_name("manta-launch")
    _detach_stdio(directory)
    libc.become_subreaper()
    _set_signals()
    trouble = _enter_user_namespace() if way == "user" else ""
    listener = wire.listen(directory, SOCKET_NAME) if way == "user" and not trouble else None
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection would write to pages that all Pods share
    serve(channel, trouble)
    while listener is not None:
        serve(wire.accept(listener), "")
    sys.exit(0)


def serve(channel: _Socket, trouble: str) -> None:
    """Do what one agent says, until it is gone."""
    while (received := wire.receive(channel)) is not None:
        message, _ = received
        try:
            if trouble:
                raise OSError(trouble)  # noqa: TRY301 - told like any other failure
            answer = _obey(message, channel)
        except OSError as error:
            answer = {"error": str(error)}
        if answer is not None:
            with suppress(OSError):
                wire.send(channel, {"reply": message["seq"], **answer})
    channel.close()


def _set_signals() -> None:
    """For us and for every init: set before the fork, they cost an init no memory."""
    launcher = os.getpid()

    def reap(*_: object) -> None:
        """Ended Pods; an init that inherits this handler does its own waiting."""
        with suppress(ChildProcessError):
            while os.getpid() == launcher and os.waitpid(-1, os.WNOHANG)[0]:
                continue

    signal.signal(signal.SIGCHLD, reap)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def _enter_user_namespace() -> str:
    """Become root of a namespace of our own, with a network of its own. Else: why not."""
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


def _obey(message: dict[str, Any], channel: _Socket) -> dict[str, Any] | None:
    """The answer, or None when a helper sends it."""
    match message["op"]:
        case "hello":
            return {"pid": os.getpid()}
        case "network":
            where = (message["pid"], message["address"], message["gateway"])
            _aside(lambda: configure_network(*where))
            return {}
        case "forwarding":
            _aside(_switch_forwarding_on)
            return {}
        case "socket":
            _aside(lambda: _send_socket(message, channel))
            return None
        case "create":
            pid = create_sandbox(message)
            _aside(lambda: _write_record(message, pid))
            return {"pid": pid}
        case unknown:
            return {"error": f"unknown operation {unknown!r}"}


def _aside(deed: Callable[[], None]) -> None:
    """Do something in a process of its own: pages that this one writes to are no longer shared
    with the Pods that it forked before."""
    words, words_child = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            deed()
        except BaseException as error:  # noqa: BLE001 - told to the parent
            os.write(words_child, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(words_child)
    failure = os.read(words, 4096)
    os.close(words)
    if failure:
        raise OSError(failure.decode())


def _send_socket(message: dict[str, Any], channel: _Socket) -> None:
    """A socket of our network, or of a Pod's: it stays there wherever it is used."""
    from _socket import socket as plain_socket

    if message["pid"]:
        _visit(message["pid"])
    made = plain_socket(message["family"], message["kind"], message["protocol"])
    wire.send(channel, {"reply": message["seq"]}, (made.fileno(),))


def _switch_forwarding_on() -> None:
    """In our own network namespace: packets of Pods may leave through its uplink."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _visit(pid: int) -> None:
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    libc.setns(there, libc.CLONE_NEWNET)
    os.close(there)


def configure_network(pid: int, address: str, gateway: str) -> None:
    """Set up the Pod's end of its cable, in its network namespace. The caller stays there."""
    _visit(pid)
    netlink = Netlink()
    netlink.set_up("lo")
    netlink.add_address("eth0", IPv4Interface(address))
    netlink.set_up("eth0")
    netlink.add_default_route(IPv4Address(gateway))
    netlink.close()


# ── sandboxes ────────────────────────────────────────────────────────────────────────────
def create_sandbox(spec: dict[str, Any]) -> int:
    """Make the init of one Pod; return its pid once its namespaces exist.

    A child in between changes the pid namespace for its own child and ends; as subreaper we
    inherit the init. (Coming back from a pid namespace is a right that user namespaces lack.)
    """
    ready, ready_child = os.pipe2(os.O_CLOEXEC)
    number, number_child = os.pipe2(os.O_CLOEXEC)
    if os.fork() == 0:
        _bear_init(spec, number_child, ready_child)
    os.close(ready_child)
    os.close(number_child)
    pid = os.read(number, 64)
    word = os.read(ready, 4096)
    os.close(number)
    os.close(ready)
    if word != b"ready":
        raise OSError(word.decode() or "the Pod's init process died at its start")
    return int(pid)


def _bear_init(spec: dict[str, Any], number: int, ready: int) -> NoReturn:
    try:
        # Sockets of the launcher must not live on in Pods: its death could not be seen.
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
        os.mkdir(shm)  # noqa: PTH102 - see init.py on comfortable modules
    libc.mount("tmpfs", shm, "tmpfs", _MOUNT_FLAGS, "mode=1777")


def _write_record(spec: dict[str, Any], pid: int) -> None:
    record = {**spec["record"], "pid": pid, "start_time": start_time(pid)}
    wire.write_record(Path(spec["dir"]) / "sandbox.json", record)


def _detach_stdio(directory: str) -> None:
    """We and our Pods may outlive the agent and must not hold its terminal or its pipes."""
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(f"{directory}/launcher.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (null, 1), (log, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(log)


# ── who a process is ─────────────────────────────────────────────────────────────────────
def start_time(pid: int) -> int:
    """Clock ticks since boot at which a process started: with its pid, its identity."""
    return int(_stat(pid)[19])


def is_zombie(pid: int) -> bool:
    return _stat(pid)[0] == "Z"


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


if __name__ == "__main__":
    main()
