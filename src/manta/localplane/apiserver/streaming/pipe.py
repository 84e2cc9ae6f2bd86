"""A connection that has left HTTP: bytes in, bytes out, nothing about sockets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from manta.localplane.apiserver.budget import Hold, unlimited
from manta.localplane.apiserver.response_head import head_bytes


class Reader(Protocol):
    """Bytes of the client: asyncio's StreamReader fits."""

    async def read(self, n: int = -1, /) -> bytes:
        """At most n bytes; b"" at the end."""

    async def readexactly(self, n: int, /) -> bytes:
        """Raises IncompleteReadError when fewer come."""


@dataclass(frozen=True, slots=True)
class Pipe:
    reader: Reader
    write: Callable[[bytes], None]
    drain: Callable[[], Awaitable[None]]
    close: Callable[[], None]
    hold: Hold = field(default_factory=unlimited)
    """Counts what was received and is not used yet."""


def switching(headers: list[tuple[str, str]]) -> bytes:
    """The answer that ends HTTP on a connection."""
    return head_bytes(101, headers)
