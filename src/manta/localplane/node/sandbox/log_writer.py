"""Writes a container's output to disk: whole lines, each with its time and stream.

The format is that of CRI runtimes: `2026-11-15T09:00:00.000000000Z stdout F text`, with P for a part of a
line longer than 16 KiB. Standard library only: it runs in the init process of every Pod.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

MAX_LINE_BYTES = 16 * 1024
MAX_FILE_BYTES = 16 * 1024 * 1024


class Splitter:
    """Splits a stream of bytes into lines. Pure."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """(text, whether the line is complete) for all that can be written now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield from self._parts(line, complete=True)
        while len(self._rest) >= MAX_LINE_BYTES:
            yield self._rest[:MAX_LINE_BYTES], False
            self._rest = self._rest[MAX_LINE_BYTES:]

    def flush(self) -> Iterator[tuple[bytes, bool]]:
        """The rest after the last line end, when the stream has ended."""
        if self._rest:
            yield self._rest, False
            self._rest = b""

    @staticmethod
    def _parts(line: bytes, *, complete: bool) -> Iterator[tuple[bytes, bool]]:
        while len(line) > MAX_LINE_BYTES:
            yield line[:MAX_LINE_BYTES], False
            line = line[MAX_LINE_BYTES:]
        yield line, complete


class LogFile:
    """The log of one attempt. At its size limit it is renamed to `<name>.1`, replacing that file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._fd).st_size

    def write(self, stream: str, parts: Iterator[tuple[bytes, bool]]) -> None:
        stamp = f"{timestamp(time.time_ns())} {stream} ".encode()
        text = b"".join(
            stamp + (b"F " if complete else b"P ") + line + b"\n" for line, complete in parts
        )
        if not text:
            return
        try:
            self._size += os.write(self._fd, text)
        except OSError:
            return  # a full disk must stop neither the container's output nor its init
        if self._size > MAX_FILE_BYTES:
            self._rotate()

    def _rotate(self) -> None:
        os.close(self._fd)
        os.rename(self._path, f"{self._path}.1")  # noqa: PTH104 - see init.py
        self._open()

    def close(self) -> None:
        os.close(self._fd)


def timestamp(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"
