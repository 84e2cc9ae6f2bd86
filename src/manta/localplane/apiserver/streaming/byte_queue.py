"""A bounded queue of bytes between two tasks: the writer waits for the reader."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from manta.httpserver.budget import Reservation

QUEUE_BYTES: Final = 256 * 1024
"""Above this the writer waits."""
PIECE_BYTES: Final = 64 * 1024
"""`get` returns at most so many bytes."""


class ByteQueue:
    """One direction of one stream. Queued bytes count for the client."""

    def __init__(self, reservation: Reservation) -> None:
        self._reservation = reservation
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._changed = asyncio.Event()

    async def put(self, data: bytes | memoryview) -> None:
        """Add data, and return when there is space for more. After the end data is dropped."""
        view = memoryview(data)
        for start in range(0, len(view), PIECE_BYTES):
            if self._ended:
                return
            piece = bytes(view[start : start + PIECE_BYTES])
            self._pieces.append(piece)
            self._size += len(piece)
            self._reservation.add(len(piece))
            self._changed.set()
            await self._space()

    async def _space(self) -> None:
        while self._size > QUEUE_BYTES and not self._ended:
            self._changed.clear()
            await self._changed.wait()

    def end(self) -> None:
        """Called by the writer: there will be no more data."""
        self._ended = True
        self._changed.set()

    async def get(self) -> bytes:
        """Return the next data; b"" at the end."""
        while not self._pieces:
            if self._ended:
                return b""
            self._changed.clear()
            await self._changed.wait()
        data = self._pieces.popleft()
        self._drop(len(data))
        return data

    def close(self) -> None:
        """Called by the reader: drop all data."""
        self._pieces.clear()
        self._drop(self._size)
        self.end()

    def _drop(self, size: int) -> None:
        self._size -= size
        self._reservation.add(-size)
        self._changed.set()
