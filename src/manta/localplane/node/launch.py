"""`python -m manta.localplane.node.launch`: a small process that forks the init of every Pod.

Forking from here instead of from the agent is quick (few pages) and safe (no threads, no event loop),
and all init processes share this one's memory. It ends when the agent's end of the socket closes; the
Pods stay. Standard library only.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Any, NoReturn

from manta.localplane.node import libc, wire
from manta.localplane.node.init import Init
from manta.localplane.node.netlink import Netlink


def main() -> NoReturn:
    """Serve the socket that is descriptor 0. Arguments only mark the process for `manta down`."""
    channel = socket.socket(fileno=os.dup(0))
    libc.set_process_name("manta-launch")
    _set_signals()
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection would write to pages that all Pods share
    while (received := wire.receive(channel)) is not None:
        message, _ = received
        try:
            answer = _obey(message, channel)
        except OSError as error:
            answer = {"error": str(error)}
        wire.send(channel, {"reply": message["seq"], **answer})
    sys.exit(0)


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


def _obey(message: dict[str, Any], channel: socket.socket) -> dict[str, Any]:
    if message["op"] == "network":
        where = (message["pid"], message["address"], message["gateway"])
        _aside(lambda: configure_network(*where))
        return {}
    pid = create_sandbox(message, channel)
    _aside(lambda: _write_record(message, pid))
    return {"pid": pid}


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


def _write_record(spec: dict[str, Any], pid: int) -> None:
    record = {**spec["record"], "pid": pid, "start_time": start_time(pid)}
    wire.write_record(Path(spec["dir"]) / "sandbox.json", record)


def configure_network(pid: int, address: str, gateway: str) -> None:
    """Set up the Pod's end of its cable, in its network namespace. The caller stays there."""
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    libc.setns(there, libc.CLONE_NEWNET)
    os.close(there)
    netlink = Netlink()
    netlink.set_up("lo")
    netlink.add_address("eth0", IPv4Interface(address))
    netlink.set_up("eth0")
    netlink.add_default_route(IPv4Address(gateway))
    netlink.close()


def create_sandbox(spec: dict[str, Any], channel: socket.socket) -> int:
    """Fork the init of one Pod; return its pid once its namespaces exist."""
    isolated = spec["isolated"]
    ready, ready_child = os.pipe2(os.O_CLOEXEC)
    own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if isolated else -1
    if isolated:
        libc.unshare(libc.CLONE_NEWPID)
    pid = os.fork()
    if pid == 0:
        channel.close()
        os.close(ready)
        _become_init(spec, ready_child)
    os.close(ready_child)
    if isolated:
        libc.setns(own_pids, libc.CLONE_NEWPID)
        os.close(own_pids)
    word = os.read(ready, 4096)
    os.close(ready)
    if word != b"ready":
        raise OSError(word.decode() or "the Pod's init process died at its start")
    return pid


def _become_init(spec: dict[str, Any], ready: int) -> NoReturn:
    try:
        os.setsid()
        libc.set_process_name("manta-pod")
        _detach_stdio()
        if spec["isolated"]:
            _isolate(spec)
        else:
            libc.become_subreaper()
        init = Init(spec["dir"], isolated=spec["isolated"])
        os.write(ready, b"ready")
        os.close(ready)
        init.run()
    except BaseException as error:  # noqa: BLE001 - a forked child must never return into main
        os.write(ready, f"{type(error).__name__}: {error}".encode())
        os._exit(1)


def _isolate(spec: dict[str, Any]) -> None:
    network = 0 if spec.get("host_network") else libc.CLONE_NEWNET
    libc.unshare(libc.CLONE_NEWNS | libc.CLONE_NEWUTS | libc.CLONE_NEWIPC | network)
    libc.mount("none", "/", flags=libc.MS_REC | libc.MS_PRIVATE)
    libc.mount("proc", "/proc", "proc", libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC)
    if not spec.get("host_network"):
        libc.set_hostname(spec["hostname"])
    shm = f"{spec['dir']}/shm"
    if not os.access(shm, os.F_OK):
        os.mkdir(shm)  # noqa: PTH102 - see init.py on comfortable modules
    libc.mount("tmpfs", shm, "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, _shm_options(spec))


def _shm_options(spec: dict[str, Any]) -> str:
    size = spec.get("shm_size")
    return f"mode=1777,size={size}" if size else "mode=1777"


def _detach_stdio() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def start_time(pid: int) -> int:
    """Clock ticks since boot at which a process started: with its pid, its identity."""
    return int(_stat(pid)[19])


def is_zombie(pid: int) -> bool:
    return _stat(pid)[0] == "Z"


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


if __name__ == "__main__":
    main()
