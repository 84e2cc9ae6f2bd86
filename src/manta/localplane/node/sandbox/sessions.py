"""Sessions of clients: exec of a command in a container, attach to the container itself."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from manta.httpserver.budget import unlimited
from manta.localplane.apiserver.streaming.byte_queue import ByteQueue
from manta.localplane.node.sandbox.log_reader import Line
from manta.localplane.node.sandbox.sandbox import Execution


class PipeWriter:
    """Writes to a descriptor; closing it ends the input."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        self._waiting = bytearray()
        os.set_blocking(fd, False)

    def write(self, data: bytes) -> None:
        self._waiting += data

    async def drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and self._fd is not None:
            try:
                del self._waiting[: os.write(self._fd, self._waiting[:65536])]
            except BlockingIOError:
                await _writable(loop, self._fd)
            except OSError:
                self._waiting.clear()  # the other end is closed

    def close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


async def _writable(loop: asyncio.AbstractEventLoop, fd: int) -> None:
    ready = asyncio.Event()
    loop.add_writer(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(fd)


class PipeReader:
    """Reads a pipe or a terminal; returns `b""` at its end."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.BaseTransport) -> None:
        self._reader = reader
        self._transport = transport

    @classmethod
    async def open(cls, fd: int) -> PipeReader:
        reader = asyncio.StreamReader()
        pipe: IO[bytes] = os.fdopen(fd, "rb", 0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        return cls(reader, transport)

    async def read(self, n: int = -1, /) -> bytes:
        try:
            return await self._reader.read(n if n > 0 else 65536)
        except OSError:
            return b""  # a terminal returns EIO when its last user has closed it

    def close(self) -> None:
        self._transport.close()


@dataclass(slots=True)
class ExecSession:
    stdin: PipeWriter | None
    stdout: PipeReader
    stderr: PipeReader | None
    _run: Execution
    _terminal: int = -1

    def resize(self, columns: int, rows: int) -> None:
        if self._terminal >= 0:
            set_size(self._terminal, columns, rows)

    async def wait(self) -> int:
        return await asyncio.shield(self._run.exit_code)

    async def close(self) -> None:
        if not self._run.exit_code.done():
            await self._run.kill()
        if self.stdin is not None:
            self.stdin.close()
        self.stdout.close()
        if self.stderr is not None:
            self.stderr.close()
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1


def set_size(fd: int, columns: int, rows: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


Start = Callable[[tuple[int, int, int]], Any]


async def open_exec(start: Start, *, stdin: bool, tty: bool) -> ExecSession:
    """Start the command with pipes or a terminal; returns the session with the client's ends."""
    return await (_open_terminal(start, stdin=stdin) if tty else _open_pipes(start, stdin=stdin))


async def _open_terminal(start: Start, *, stdin: bool) -> ExecSession:
    ours, theirs = os.openpty()
    try:
        run = await start((theirs, theirs, theirs))
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    writer = PipeWriter(os.dup(ours)) if stdin else None
    return ExecSession(writer, await PipeReader.open(os.dup(ours)), None, run, ours)


async def _open_pipes(start: Start, *, stdin: bool) -> ExecSession:
    out, out_child = os.pipe2(os.O_CLOEXEC)
    err, err_child = os.pipe2(os.O_CLOEXEC)
    in_child, into = os.pipe2(os.O_CLOEXEC) if stdin else (_null(), -1)
    kept = [fd for fd in (out, err, into) if fd >= 0]
    try:
        run = await start((in_child, out_child, err_child))
    except BaseException:
        for fd in kept:
            os.close(fd)
        raise
    finally:
        for fd in (in_child, out_child, err_child):
            os.close(fd)
    writer = PipeWriter(into) if stdin else None
    return ExecSession(writer, await PipeReader.open(out), await PipeReader.open(err), run)


def _null() -> int:
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


class LineReader:
    """One stream of a followed log, as bytes. The log is on disk, so only a little is buffered here."""

    def __init__(self) -> None:
        self._queue = ByteQueue(unlimited())

    async def put(self, data: bytes) -> None:
        await self._queue.put(data)

    def end(self) -> None:
        self._queue.end()

    async def read(self, n: int = -1, /) -> bytes:
        return await self._queue.get()


@dataclass(slots=True)
class AttachSession:
    """Follows the container's output and writes to its stdin. Closing it does not end the container."""

    stdin: PipeWriter | None
    stdout: LineReader
    stderr: LineReader | None
    _lines: AsyncIterator[Line]
    _code: Callable[[], int]
    _task: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self._task = asyncio.create_task(self._copy())

    async def _copy(self) -> None:
        try:
            async for line in self._lines:
                to_stderr = self.stderr is not None and line.stream == b"stderr"
                await (self.stderr if to_stderr and self.stderr else self.stdout).put(line.text)
        finally:
            self.stdout.end()
            if self.stderr is not None:
                self.stderr.end()

    def resize(self, columns: int, rows: int) -> None:
        """The container's own terminal keeps its size."""

    async def wait(self) -> int:
        await asyncio.shield(self._task)
        return self._code()

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        if self.stdin is not None:
            self.stdin.close()
