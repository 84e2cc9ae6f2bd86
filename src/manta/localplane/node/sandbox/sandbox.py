"""The agent's side of a Pod's init process (init.py), which is the Pod's sandbox.

A sandbox is identified by its pid and start time together, so that a reused pid is never taken for a Pod.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manta.localplane.node.host import pid_namespace, wire
from manta.localplane.node.host.process_tree import end_descendants, kill
from manta.localplane.node.sandbox.channel import Channel, Gone, Refused
from manta.localplane.node.sandbox.launch import is_zombie, start_time
from manta.localplane.node.sandbox.launcher import Launcher


class Sandbox:
    """The init process of a Pod, as the agent sees it."""

    def __init__(
        self, directory: Path, pid: int, on_event: Callable[[dict[str, Any]], None]
    ) -> None:
        self.directory = directory
        self.pid = pid
        self.ended = asyncio.Event()
        self._on_event = on_event
        self._execs: dict[str, asyncio.Future[int]] = {}
        self._stdin: dict[str, asyncio.Future[int]] = {}
        self._exec_number = 0
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(pid)
        self._loop.add_reader(self._pidfd, self._end)
        try:
            self._channel = Channel(
                wire.connect(directory / "init.sock"), self._receive, lambda: None
            )
        except OSError:
            self._forget()
            raise

    async def mount_memory(self, path: Path, size: int | None) -> None:
        await self._channel.request("memory", path=str(path), size=size)

    async def running(self) -> dict[str, float]:
        """IDs and start times of the running containers."""
        answer = await self._channel.request("list")
        return dict(answer["running"])

    async def start(self, spec: Mapping[str, Any]) -> None:
        """Start a container. The events `started` and `exited` report the result."""
        await self._channel.request("start", (), **_init_spec(spec))

    async def signal(self, container_id: str, number: int) -> None:
        await self._channel.request("signal", id=container_id, signal=int(number))

    async def execute(
        self, container_id: str, spec: Mapping[str, Any], fds: Sequence[int]
    ) -> Execution:
        """Run a command in a running container with these descriptors as stdio. Raises Gone or Refused."""
        self._exec_number += 1
        exec_id = f"{os.getpid()}-{self._exec_number}"
        ended: asyncio.Future[int] = self._loop.create_future()
        self._execs[exec_id] = ended
        try:
            await self._channel.request(
                "exec", fds, container=container_id, id=exec_id, spec=dict(spec)
            )
        except (Gone, Refused):
            self._execs.pop(exec_id, None)
            raise
        return Execution(self._channel, exec_id, ended)

    async def stdin_of(self, container_id: str) -> int:
        """A descriptor that writes to a container's stdin; the caller closes it."""
        passed: asyncio.Future[int] = self._loop.create_future()
        self._stdin[container_id] = passed
        try:
            await self._channel.request("stdin", id=container_id)
        except (Gone, Refused):
            self._stdin.pop(container_id, None)
            raise
        return await passed

    def _receive(self, message: dict[str, Any], fds: list[int]) -> None:
        match message["event"]:
            case "exec-exit":
                if (ended := self._execs.pop(message["id"], None)) and not ended.done():
                    ended.set_result(message["code"])
            case "stdin" if fds:
                if (passed := self._stdin.pop(message["id"], None)) and not passed.done():
                    passed.set_result(fds.pop())
                for fd in fds:
                    os.close(fd)
            case _:
                self._on_event(message)

    def kill(self) -> None:
        """Kill the Pod's PID 1; the kernel then ends all processes of the Pod."""
        if not self.ended.is_set():
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _end(self) -> None:
        self._forget()
        self._channel.close()
        for ended in self._execs.values():
            if not ended.done():
                ended.set_result(137)
        self.ended.set()
        self._on_event({"event": "sandbox-ended"})

    def _forget(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)

    def detach(self) -> None:
        """Disconnect; the Pod keeps running."""
        if not self.ended.is_set():
            self._forget()
            self._channel.close()


def _init_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the container spec that the init needs. The container's first process reads the whole
    from a file, and removes that."""
    record = Path(spec["record"])
    record.mkdir(parents=True, exist_ok=True)
    path = record / "spec.json"
    wire.write_record(path, spec)
    inherited = ("env", "cwd", "cgroups", "uid", "gid", "groups", "capabilities", "no_new_privs")
    return {
        "spec": str(path),
        "id": spec["id"],
        "record": spec["record"],
        "log": spec["log"],
        "oom_events": spec.get("oom_events", ""),
        "own_pids": bool(spec.get("isolated", True) and not spec.get("share_pids")),
        "tty": bool(spec.get("tty")),
        "stdin": bool(spec.get("stdin")),
        "exec": {name: spec[name] for name in inherited if name in spec},
    }


@dataclass(frozen=True, slots=True)
class Execution:
    _channel: Channel
    _id: str
    exit_code: asyncio.Future[int]

    async def kill(self) -> None:
        try:
            await self._channel.request("kill-exec", id=self._id, signal=int(signal.SIGKILL))
        except (Gone, Refused):
            return


def is_running(record: Mapping[str, Any]) -> bool:
    """Whether the process of this `sandbox.json` still runs, and not another with its pid."""
    try:
        pid = int(record["pid"])
        return start_time(pid) == int(record["start_time"]) and not is_zombie(pid)
    except (OSError, KeyError, ValueError, IndexError):
        return False


def adopt(
    directory: Path, on_event: Callable[[dict[str, Any]], None], launcher: Launcher | None = None
) -> Sandbox | None:
    """The sandbox that an earlier agent left running in `directory`, if it still runs.

    In mode `user`, a sandbox of another launcher has lost its network, and is ended.
    """
    record = wire.read_record(directory / "sandbox.json")
    if record is None or not is_running(record):
        return None
    if launcher and launcher.mode == "user" and record.get("launcher") != launcher.pid:
        end_sandbox(directory)
        return None
    try:
        return Sandbox(directory, int(record["pid"]), on_event)
    except OSError:
        return None


def end_sandbox(directory: Path) -> list[int]:
    """Kill what an earlier agent left running in `directory`. Returns the pids. Without a pid namespace the
    descendants of the init do not end with it, and are killed too."""
    record = wire.read_record(directory / "sandbox.json")
    if record is None or not is_running(record):
        return []
    pid = int(record["pid"])
    ended = end_descendants(pid) if pid_namespace.is_here(pid) else []
    kill([pid])
    return [*ended, pid]
