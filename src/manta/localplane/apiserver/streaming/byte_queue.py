"""Bytes between two tasks, bounded: whoever writes waits for whoever reads."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from manta.localplane.apiserver.budget import Hold

QUEUE_BYTES: Final = 256 * 1024
"""Above this the writer waits. A single piece may be larger."""


class ByteQueue:
    """One direction of one stream. What waits in it counts for the client."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._changed = asyncio.Event()

    async def put(self, data: bytes) -> None:
        """Returns when there is space again; what comes after the end is dropped."""
        if not data or self._ended:
            return
        self._pieces.append(data)
        self._size += len(data)
        self._hold.add(len(data))
        self._changed.set()
        while self._size > QUEUE_BYTES:
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
