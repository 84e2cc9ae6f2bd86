"""Bytes between two tasks, bounded: whoever writes waits for whoever reads."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from manta.localplane.apiserver.budget import Hold

QUEUE_BYTES: Final = 256 * 1024
"""Above this the writer waits."""
PIECE_BYTES: Final = 64 * 1024
"""What is put in comes out in pieces of this size at most."""


class ByteQueue:
    """One direction of one stream. What waits in it counts for the client."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._changed = asyncio.Event()

    async def put(self, data: bytes | memoryview) -> None:
        """Returns when everything is in, and there is space for more. After the end it is dropped."""
        view = memoryview(data)
        for start in range(0, len(view), PIECE_BYTES):
            if self._ended:
                return
            piece = bytes(view[start : start + PIECE_BYTES])
            self._pieces.append(piece)
            self._size += len(piece)
            self._hold.add(len(piece))
            self._changed.set()
            await self._space()

    async def _space(self) -> None:
        while self._size > QUEUE_BYTES and not self._ended:
            self._changed.clear()
            await self._changed.wait()

    def end(self) -> None:
        """No more will be put in."""
        self._ended = True
        self._changed.set()

    async def get(self) -> bytes:
        """The next piece; b"" at the end."""
        while not self._pieces:
            if self._ended:
                return b""
            self._changed.clear()
            await self._changed.wait()
        data = self._pieces.popleft()
        self._drop(len(data))
        return data

    def close(self) -> None:
        """Nobody reads any more."""
        self._pieces.clear()
        self._drop(self._size)
        self.end()

    def _drop(self, size: int) -> None:
        self._size -= size
        self._hold.add(-size)
        self._changed.set()
