"""How the API server reaches into running Pods: the protocol that a node agent implements.

The server speaks HTTP, WebSocket and SPDY with clients and hands plain bytes to a connector. A
connector never sees a wire protocol, and the server never sees a process. A Pod or container that
is not there, or not running, is told by `ContainerUnavailable`, whose text the client reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol


class ContainerUnavailable(Exception):  # noqa: N818 - a state of the container, told to the client
    """The container cannot be reached now; the text says why, in the words of a kubelet."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The query of `pods/log`, read. `since_time` is RFC 3339 text as the client sent it."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: str = ""
    limit_bytes: int | None = None


class ByteWriter(Protocol):
    """Standard input of a process: asyncio's StreamWriter fits."""

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...


class ByteReader(Protocol):
    """One output of a process: asyncio's StreamReader fits. `b""` means the end."""

    async def read(self, n: int = -1, /) -> bytes: ...


class ExecSession(Protocol):
    """A process that runs beside the container's own, joined to the client by three streams."""

    @property
    def stdin(self) -> ByteWriter | None: ...
    @property
    def stdout(self) -> ByteReader: ...
    @property
    def stderr(self) -> ByteReader | None:
        """None when the process has a terminal: then everything comes on stdout."""

    def resize(self, columns: int, rows: int) -> None: ...

    async def wait(self) -> int:
        """The exit code. The outputs end before or when this returns."""

    async def close(self) -> None:
        """Leave: end the process if it still runs (for attach: only let go of it)."""


class NodeConnector(Protocol):
    """What a node can do for the server. `container` is a name that the Pod has (never '')."""

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncIterator[bytes]: ...

    async def exec(
        self,
        namespace: str,
        pod: str,
        container: str,
        command: Sequence[str],
        *,
        stdin: bool,
        tty: bool,
    ) -> ExecSession: ...

    async def attach(
        self, namespace: str, pod: str, container: str, *, stdin: bool, tty: bool
    ) -> ExecSession: ...

    async def dial(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]: ...
