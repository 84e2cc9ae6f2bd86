"""A connection that has left HTTP: bytes in, bytes out, nothing about sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pipe:
    reader: asyncio.StreamReader
    write: Callable[[bytes], None]
    drain: Callable[[], Awaitable[None]]
    close: Callable[[], None]


def switching(headers: list[tuple[str, str]]) -> bytes:
    """The answer that ends HTTP on a connection."""
    lines = ["HTTP/1.1 101 Switching Protocols", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"
