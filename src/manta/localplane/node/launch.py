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
from pathlib import Path
from typing import Any, NoReturn

from manta.localplane.node import libc, wire
from manta.localplane.node.init import Init


def main() -> NoReturn:
    """Serve the socket that is descriptor 0. Arguments only mark the process for `manta down`."""
    channel = socket.socket(fileno=os.dup(0))
    libc.set_process_name("manta-launch")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel then reaps ended Pods for us
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    while (received := wire.receive(channel)) is not None:
        message, _ = received
        try:
            answer: dict[str, Any] = {"pid": create_sandbox(message, channel)}
        except OSError as error:
            answer = {"error": str(error)}
        wire.send(channel, {"reply": message["seq"], **answer})
    sys.exit(0)


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
    with os.fdopen(ready) as pipe:
        word = pipe.read()
    if word != "ready":
        raise OSError(word or "the Pod's init process died at its start")
    return pid


def _become_init(spec: dict[str, Any], ready: int) -> NoReturn:
    try:
        directory = Path(spec["dir"])
        os.setsid()
        libc.set_process_name("manta-pod")
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _detach_stdio()
        pid = int(Path("/proc/self").readlink().name)  # while /proc is still the machine's
        if spec["isolated"]:
            _isolate(spec, directory)
        else:
            libc.become_subreaper()
        init = Init(directory, isolated=spec["isolated"])
        record = {"pid": pid, "start_time": start_time("self" if not spec["isolated"] else "1")}
        wire.write_record(directory / "sandbox.json", {**spec["record"], **record})
        os.write(ready, b"ready")
        os.close(ready)
        init.run()
    except BaseException as error:  # noqa: BLE001 - a forked child must never return into main
        os.write(ready, f"{type(error).__name__}: {error}".encode())
        os._exit(1)


def _isolate(spec: dict[str, Any], directory: Path) -> None:
    network = 0 if spec.get("host_network") else libc.CLONE_NEWNET
    libc.unshare(libc.CLONE_NEWNS | libc.CLONE_NEWUTS | libc.CLONE_NEWIPC | network)
    libc.mount("none", "/", flags=libc.MS_REC | libc.MS_PRIVATE)
    libc.mount("proc", "/proc", "proc", libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC)
    if not spec.get("host_network"):
        libc.set_hostname(spec["hostname"])
    shm = directory / "shm"
    shm.mkdir(exist_ok=True)
    libc.mount("tmpfs", str(shm), "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, _shm_options(spec))


def _shm_options(spec: dict[str, Any]) -> str:
    size = spec.get("shm_size")
    return f"mode=1777,size={size}" if size else "mode=1777"


def _detach_stdio() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def start_time(pid: int | str) -> int:
    """Clock ticks since boot at which a process started: with its pid, its identity."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[19])


if __name__ == "__main__":
    main()
