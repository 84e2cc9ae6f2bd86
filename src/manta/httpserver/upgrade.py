"""A connection after `101 Switching Protocols`: bytes in, bytes out, independent of sockets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from manta.httpserver.budget import Reservation, unlimited
from manta.httpserver.response import head_bytes


class Reader(Protocol):
    """Bytes of the client: asyncio's StreamReader fits."""

    async def read(self, n: int = -1, /) -> bytes:
        """At most n bytes; b"" at the end."""

    async def readexactly(self, n: int, /) -> bytes:
        """Raises IncompleteReadError when the client sends fewer."""


@dataclass(frozen=True, slots=True)
class UpgradedConnection:
    reader: Reader
    write: Callable[[bytes], None]
    drain: Callable[[], Awaitable[None]]
    close: Callable[[], None]
    reservation: Reservation = field(default_factory=unlimited)
    """Counts bytes that are received and not processed yet."""


def switching_protocols(headers: list[tuple[str, str]]) -> bytes:
    """The response head that ends HTTP on a connection."""
    return head_bytes(101, headers)
