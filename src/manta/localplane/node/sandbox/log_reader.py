"""Reads a container's log as log_writer.py writes it: its tail, since a time, following."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple, Self

from manta.localplane.node.host import libc
from manta.localplane.node.host.confined_files import Directory, open_beneath

_CHUNK_BYTES = 256 * 1024


class Line(NamedTuple):
    time: bytes
    stream: bytes
    text: bytes
    """With its line end, unless this is a part of a longer line."""

    def shown(self, *, timestamps: bool) -> bytes:
        return self.time + b" " + self.text if timestamps else self.text


def parse(line: bytes) -> Line | None:
    """Parse one line of the file; None if it is malformed."""
    parts = line.split(b" ", 3)
    if len(parts) < 4 or parts[2] not in (b"F", b"P"):
        return None
    return Line(parts[0], parts[1], parts[3] + (b"\n" if parts[2] == b"F" else b""))


def chosen(lines: Iterable[Line], since: str, tail: int | None) -> Iterable[Line]:
    """The lines at or after `since` (a timestamp as text), of these the last `tail`."""
    moment = since.encode()
    kept: Iterable[Line] = (line for line in lines if line.time >= moment)
    return kept if tail is None else deque(kept, maxlen=tail)


def older_lines(path: Path) -> Iterator[Line]:
    """The lines of the rotated log file."""
    with suppress(FileNotFoundError), _open(path.with_name(path.name + ".1")) as file:
        for raw in file:
            if (line := parse(raw.rstrip(b"\n"))) is not None:
                yield line


def last_lines(path: Path, *, lines: int, limit: int) -> str:
    """The end of a log without timestamps: at most `lines` lines and `limit` bytes."""
    try:
        with _open(path) as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - 4 * limit, 0))
            tail = file.read().splitlines()[-lines:]
    except FileNotFoundError:
        return ""
    text = b"\n".join(line.split(b" ", 3)[-1] for line in tail)
    return text[-limit:].decode(errors="replace")


def _open(path: Path) -> IO[bytes]:
    with Directory.at(path.parent) as record:
        return os.fdopen(open_beneath(record.fd, path.name, os.O_RDONLY), "rb")


async def follow(tail: Tail, ended: Callable[[], bool]) -> AsyncIterator[Line]:
    """Lines as they are written, until `ended` returns True and all are read."""
    with tail, DirectoryWatch(tail.path.parent) as watch:
        while True:
            over = ended()
            for line in tail.read():
                yield line
            if over:
                return
            await watch.change()


class Tail:
    """Each `read` continues where the last one stopped, also after a rotation of the file."""

    def __init__(self, path: Path, *, at_end: bool = False) -> None:
        self.path = path
        self._file = _open(path)
        if at_end:
            self._file.seek(0, os.SEEK_END)
        self._rest = b""

    @classmethod
    def open(cls, path: Path) -> Tail:
        """Create the file if it is missing: a container that could not start has an empty log."""
        with Directory.at(path.parent) as record:
            record.touch(path.name, mode=0o600)
        return cls(path)

    def read(self) -> Iterator[Line]:
        yield from self._read_all()
        if self._moved():
            self._file.close()
            self._file = _open(self.path)
            yield from self._read_all()

    def _read_all(self) -> Iterator[Line]:
        while data := self._file.read(_CHUNK_BYTES):
            *lines, self._rest = (self._rest + data).split(b"\n")
            for raw in lines:
                if (line := parse(raw)) is not None:
                    yield line

    def _moved(self) -> bool:
        try:
            return self.path.stat().st_ino != os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class DirectoryWatch:
    """Waits for changes in a directory, without polling."""

    def __init__(self, directory: Path) -> None:
        mask = libc.IN_MODIFY | libc.IN_MOVED_TO | libc.IN_CREATE | libc.IN_DELETE_SELF
        self._fd = libc.inotify(str(directory), mask)
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> Self:
        self._loop.add_reader(self._fd, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _read(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._fd, 65536)
        self._changed.set()

    async def change(self) -> None:
        await self._changed.wait()
        self._changed.clear()
