"""The interface between the API server and a node agent, for logs, exec, attach and port-forward.

The API server speaks HTTP, WebSocket and SPDY with clients; the node agent only sees plain bytes. It
raises `ContainerUnavailable` for a Pod or container that does not exist or does not run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class ContainerUnavailable(Exception):  # noqa: N818 - a state, not a fault
    """The container cannot be reached; the text is that of a kubelet, and is sent to the client."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The query of `pods/log`. `since_time` is RFC 3339 text as the client sent it."""

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
    """A process in a container, connected to the client by three streams."""

    @property
    def stdin(self) -> ByteWriter | None: ...
    @property
    def stdout(self) -> ByteReader: ...
    @property
    def stderr(self) -> ByteReader | None:
        """None when the process has a terminal: all output is on stdout then."""

    def resize(self, columns: int, rows: int) -> None: ...

    async def wait(self) -> int:
        """The exit code. The outputs end before or when this returns."""

    async def close(self) -> None:
        """End the process if it still runs; for attach only disconnect from it."""


class NodeConnector(Protocol):
    """Implemented by the node agent. `container` is the name of a container of the Pod."""

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

    async def node_document(self, node: str, path: str) -> Any:
        """What the node says of itself under this path of `nodes/NAME/proxy`; None: nothing."""

    async def dial(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]: ...
