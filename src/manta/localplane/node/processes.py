"""The agent's hand on processes: make a Pod's sandbox, run containers in it, adopt what is running.

A sandbox is one init process (see init.py). It is known by its pid and start time together, so that a
reused pid is never taken for a Pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from manta.localplane.node import pidspace, wire
from manta.localplane.node.channel import Channel, Gone, Refused
from manta.localplane.node.launch import SOCKET_NAME, is_zombie, start_time
from manta.localplane.node.processtree import end_descendants, kill

_LAUNCH = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from manta.localplane.node.launch import main; main()"
)
PLANE_VARIABLE = "MANTA_PLANE"
POD_VARIABLE = "MANTA_POD"
"""In the environment of containers without namespaces: nothing else holds their processes."""
MARK = "manta-node"
"""Stands with the plane's directory on the command line of the launcher and of every Pod's init."""


Way = Literal["root", "user", "plain"]


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    directory: Path
    hostname: str
    record: Mapping[str, Any]
    """What the next agent must know of this sandbox: the Pod's identity and address."""
    host_network: bool = False
    isolated: bool = True


class NoNamespaces(Exception):  # noqa: N818 - a state of the machine
    """This machine does not let us make Pods. The message names the cure."""


class NetworkLost(Exception):  # noqa: N818 - as above
    """The user namespace that held the Pods' network is gone; all must be made anew."""


class Launcher:
    """Keeps the small process that forks sandboxes; starts it anew when it was killed."""

    def __init__(self, directory: Path, way: Way) -> None:
        self.way = way
        self.pid = 0
        """Of the running launcher: in way `user` Pods are lost when it changes."""
        self.lost = asyncio.Event()
        """It was killed although it should stay (way `user`): the Pods' network is gone."""
        self._directory = directory
        self._channel: Channel | None = None
        self._process: subprocess.Popen[bytes] | None = None

    async def open(self) -> None:
        """Start it, or find the one that an earlier agent started."""
        try:
            self.pid = await self._hello()
        except Refused as error:
            raise NoNamespaces(f"{error}. {_cure(self.way)}") from error

    async def _hello(self) -> int:
        try:
            return int((await self._ready().ask("hello"))["pid"])
        except Gone:
            return int((await self._ready().ask("hello"))["pid"])

    async def create(self, spec: SandboxSpec) -> int:
        fields: dict[str, Any] = {
            "dir": str(spec.directory),
            "hostname": spec.hostname,
            "record": {**spec.record, "launcher": self.pid},
            "host_network": spec.host_network,
            "isolated": spec.isolated,
        }
        return int((await self._ask("create", **fields))["pid"])

    async def configure_network(self, pid: int, address: str, gateway: str) -> None:
        """Give the sandbox of init `pid` its address, once its cable is laid."""
        await self._ask("network", pid=pid, address=address, gateway=gateway)

    async def switch_forwarding_on(self) -> None:
        """In the launcher's network namespace (way `user`)."""
        await self._ask("forwarding")

    async def make_socket(
        self, family: int, kind: int, protocol: int = 0, *, pid: int = 0
    ) -> socket.socket:
        """A socket in the launcher's network, or in that of a Pod's init."""
        fields = {"family": int(family), "kind": int(kind), "protocol": int(protocol), "pid": pid}
        return socket.socket(fileno=await self._ready().ask_for_socket("socket", **fields))

    async def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        try:
            return await self._ready().ask(op, (), **fields)
        except Gone:
            await self.open()
            return await self._ready().ask(op, (), **fields)

    def _ready(self) -> Channel:
        if self._channel is None:
            self._channel = Channel(self._connect(), lambda *_: None, self._lost)
        return self._channel

    def _connect(self) -> socket.socket:
        if self.way == "user":
            with contextlib.suppress(OSError):
                return wire.connect(self._directory / SOCKET_NAME)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(Path(__file__).parents[3])]
        with theirs:
            self._process = subprocess.Popen(
                [*command, MARK, str(self._directory), self.way],
                stdin=theirs.fileno(),
                start_new_session=True,
                cwd="/",
            )
        return ours

    def _lost(self) -> None:
        self._channel = None
        if self.way == "user":
            self.lost.set()
        if self._process is not None and self.way != "user":
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Let go of it. Pods go on."""
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            # It is meant to outlive us; somebody else will see its end.
            self._process.returncode = 0


def _cure(way: Way) -> str:
    if way == "root":
        return "Is this a container without CAP_SYS_ADMIN? Use --isolation none there"
    return (
        "Run as root, or allow user namespaces to ordinary users (on Ubuntu: sysctl -w"
        " kernel.apparmor_restrict_unprivileged_userns=0; on Debian: sysctl -w"
        " kernel.unprivileged_userns_clone=1), or use --isolation none"
    )


class Sandbox:
    """A Pod's init process, seen from the agent."""

    def __init__(
        self, directory: Path, pid: int, on_news: Callable[[dict[str, Any]], None]
    ) -> None:
        self.directory = directory
        self.pid = pid
        self.ended = asyncio.Event()
        self._on_news = on_news
        self._execs: dict[str, asyncio.Future[int]] = {}
        self._stdin: dict[str, asyncio.Future[int]] = {}
        self._exec_number = 0
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(pid)
        self._loop.add_reader(self._pidfd, self._end)
        try:
            self._channel = Channel(wire.connect(directory / "init.sock"), self._hear, lambda: None)
        except OSError:
            self._forget()
            raise

    async def mount_memory(self, path: Path, size: int | None) -> None:
        await self._channel.ask("memory", path=str(path), size=size)

    async def running(self) -> dict[str, float]:
        """Ids of the containers that run, with their start times."""
        answer = await self._channel.ask("list")
        return dict(answer["running"])

    async def start(self, spec: Mapping[str, Any]) -> None:
        """Start a container. Its success or failure comes as news ('started', 'exited')."""
        await self._channel.ask("start", (), **_brief(spec))

    async def signal(self, container_id: str, number: int) -> None:
        await self._channel.ask("signal", id=container_id, signal=int(number))

    async def execute(
        self, container_id: str, spec: Mapping[str, Any], fds: Sequence[int]
    ) -> Execution:
        """Run a command in a running container with these descriptors as its stdio."""
        self._exec_number += 1
        exec_id = f"{os.getpid()}-{self._exec_number}"
        ended: asyncio.Future[int] = self._loop.create_future()
        self._execs[exec_id] = ended
        try:
            await self._channel.ask(
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
            await self._channel.ask("stdin", id=container_id)
        except (Gone, Refused):
            self._stdin.pop(container_id, None)
            raise
        return await passed

    def _hear(self, message: dict[str, Any], fds: list[int]) -> None:
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
                self._on_news(message)

    def kill(self) -> None:
        """SIGKILL to the Pod's PID 1: the kernel removes everything in it."""
        if not self.ended.is_set():
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _end(self) -> None:
        self._forget()
        self._channel.close()
        for ended in self._execs.values():
            if not ended.done():
                ended.set_result(137)
        self.ended.set()
        self._on_news({"event": "sandbox-ended"})

    def _forget(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)

    def leave(self) -> None:
        """Let go of the sandbox without touching it: the agent ends, the Pod goes on."""
        if not self.ended.is_set():
            self._forget()
            self._channel.close()


def _brief(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What the init keeps of a container; the whole goes through a file to the container's
    first process, which removes it."""
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
            await self._channel.ask("kill-exec", id=self._id, signal=int(signal.SIGKILL))
        except (Gone, Refused):
            return


def is_running(record: Mapping[str, Any]) -> bool:
    """Does the process of this `sandbox.json` still run? (Not: another with its number.)"""
    try:
        pid = int(record["pid"])
        return start_time(pid) == int(record["start_time"]) and not is_zombie(pid)
    except (OSError, KeyError, ValueError, IndexError):
        return False


def adopt(
    directory: Path, on_news: Callable[[dict[str, Any]], None], launcher: Launcher | None = None
) -> Sandbox | None:
    """The sandbox that an earlier agent left running in `directory`, if it still runs.

    Under a user's launcher that is no longer the same, a sandbox has lost its network: it is ended.
    """
    record = wire.read_record(directory / "sandbox.json")
    if record is None or not is_running(record):
        return None
    if launcher and launcher.way == "user" and record.get("launcher") != launcher.pid:
        end_sandbox(directory)
        return None
    try:
        return Sandbox(directory, int(record["pid"]), on_news)
    except OSError:
        return None


def find_processes(file: str, mark: bytes) -> list[int]:
    """Our processes with `mark` in their /proc file (`cmdline` or `environ`)."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            content = Path(entry.path, file).read_bytes()
        except OSError:
            continue
        if mark in b"\0" + content and pidspace.is_ours(int(entry.name)):
            found.append(int(entry.name))
    return sorted(found)


def end_sandbox(directory: Path) -> list[int]:
    """Kill what an earlier agent left running in `directory`; the processes that were told to end.
    Where the init is not the first of a pid namespace, what it started does not end with it."""
    record = wire.read_record(directory / "sandbox.json")
    if record is None or not is_running(record):
        return []
    pid = int(record["pid"])
    ended = end_descendants(pid) if pidspace.is_here(pid) else []
    kill([pid])
    return [*ended, pid]
