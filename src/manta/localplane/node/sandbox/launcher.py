"""The agent's side of the launcher process (launch.py)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from manta.localplane.node.host import wire
from manta.localplane.node.sandbox.channel import Channel, Gone, Refused
from manta.localplane.node.sandbox.launch import SOCKET_NAME
from manta.localplane.node.sandbox.processes import MARK

_LAUNCH = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from manta.localplane.node.sandbox.launch import main; main()"
)
Mode = Literal["root", "user", "plain"]


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    directory: Path
    hostname: str
    record: Mapping[str, Any]
    """What the next agent needs of this sandbox: the identity and address of the Pod."""
    host_network: bool = False
    isolated: bool = True


class NoNamespaces(Exception):  # noqa: N818 - a state of the machine
    """The machine does not allow Pods. The message says what to do."""


class NetworkLost(Exception):  # noqa: N818 - as above
    """The user namespace with the Pod network has ended; all Pods must be re-created."""


class Launcher:
    """Runs the launcher process, and starts it again after it was killed."""

    def __init__(self, directory: Path, mode: Mode) -> None:
        self.mode = mode
        self.pid = 0
        """The pid of the launcher process. In mode `user`, Pods are lost when it changes."""
        self.lost = asyncio.Event()
        """Set if the launcher of mode `user` was killed, and with it the Pod network."""
        self._directory = directory
        self._channel: Channel | None = None
        self._process: subprocess.Popen[bytes] | None = None

    async def open(self) -> None:
        """Start the launcher, or connect to that of an earlier agent. Raises NoNamespaces."""
        try:
            self.pid = await self._hello()
        except Refused as error:
            raise NoNamespaces(f"{error}. {_remedy(self.mode)}") from error

    async def _hello(self) -> int:
        try:
            return int((await self._ready().request("hello"))["pid"])
        except Gone:
            return int((await self._ready().request("hello"))["pid"])

    async def create(self, spec: SandboxSpec) -> int:
        fields: dict[str, Any] = {
            "dir": str(spec.directory),
            "hostname": spec.hostname,
            "record": {**spec.record, "launcher": self.pid},
            "host_network": spec.host_network,
            "isolated": spec.isolated,
        }
        return int((await self._request("create", **fields))["pid"])

    async def configure_network(self, pid: int, address: str, gateway: str) -> None:
        """Configure the network of the attached sandbox with init `pid`."""
        await self._request("network", pid=pid, address=address, gateway=gateway)

    async def switch_forwarding_on(self) -> None:
        """In the launcher's network namespace (mode `user`)."""
        await self._request("forwarding")

    async def make_socket(
        self, family: int, kind: int, protocol: int = 0, *, pid: int = 0
    ) -> socket.socket:
        """A socket in the network namespace of the launcher, or of the init `pid`."""
        fields = {"family": int(family), "kind": int(kind), "protocol": int(protocol), "pid": pid}
        return socket.socket(fileno=await self._ready().request_socket("socket", **fields))

    async def _request(self, op: str, **fields: Any) -> dict[str, Any]:
        try:
            return await self._ready().request(op, (), **fields)
        except Gone:
            await self.open()
            return await self._ready().request(op, (), **fields)

    def _ready(self) -> Channel:
        if self._channel is None:
            self._channel = Channel(self._connect(), lambda *_: None, self._lost)
        return self._channel

    def _connect(self) -> socket.socket:
        if self.mode == "user":
            with contextlib.suppress(OSError):
                return wire.connect(self._directory / SOCKET_NAME)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(Path(__file__).parents[4])]
        with theirs:
            self._process = subprocess.Popen(
                [*command, MARK, str(self._directory), self.mode],
                stdin=theirs.fileno(),
                start_new_session=True,
                cwd="/",
            )
        return ours

    def _lost(self) -> None:
        self._channel = None
        if self.mode == "user":
            self.lost.set()
        if self._process is not None and self.mode != "user":
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Disconnect. Pods keep running."""
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            # The launcher outlives this process, so Popen must not wait for it.
            self._process.returncode = 0


def _remedy(mode: Mode) -> str:
    if mode == "root":
        return "Is this a container without CAP_SYS_ADMIN? Use --isolation none there"
    return (
        "Run as root, or allow user namespaces to ordinary users (on Ubuntu: sysctl -w"
        " kernel.apparmor_restrict_unprivileged_userns=0; on Debian: sysctl -w"
        " kernel.unprivileged_userns_clone=1), or use --isolation none"
    )
