"""The end of a log, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable
from typing import Final

MAX_BYTES: Final = 4 * 1024 * 1024


class Tail:
    """The last lines of what it is given, and of those the last `MAX_BYTES`."""

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self.seen = 0
        """Bytes of the whole."""

    def add(self, chunk: bytes) -> None:
        self.seen += len(chunk)
        self._chunks.append(chunk)
        self._size += len(chunk)
        while self._size - len(self._chunks[0]) >= MAX_BYTES:
            self._size -= len(self._chunks.popleft())

    def text(self) -> bytes:
        kept = b"".join(self._chunks)[-MAX_BYTES:]
        return b"".join(kept.splitlines(keepends=True)[-self._lines :])


async def tail_of(chunks: AsyncIterable[bytes], lines: int) -> Tail:
    """The tail of all of them."""
    tail = Tail(lines)
    async for chunk in chunks:
        tail.add(chunk)
    return tail
