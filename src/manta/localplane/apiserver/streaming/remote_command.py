"""Exec and attach: three streams between a client and a process, whatever carries them.

A `Wire` brings the client's streams here; `converse` pumps until the process has ended and tells
its exit code as a Status.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from manta.localplane.apiserver.streaming.connector import (
    ByteReader,
    ContainerUnavailable,
    ExecSession,
)

CHUNK = 32 * 1024
OpenSession = Callable[[], Awaitable[ExecSession]]


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """The query of exec and attach, read."""

    container: str
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class Wire(Protocol):
    """The client's end."""

    async def stdin(self) -> bytes:
        """The next input; b"" when there is no more."""

    async def resize(self) -> tuple[int, int] | None:
        """The next terminal size (columns, rows); None when there will be no more."""

    async def stdout(self, data: bytes) -> None: ...
    async def stderr(self, data: bytes) -> None: ...

    async def finish(self, status: dict[str, Any]) -> None:
        """All output has been sent; this is how it ended."""


async def converse(wire: Wire, options: CommandOptions, open_session: OpenSession) -> None:
    try:
        session = await open_session()
    except ContainerUnavailable as error:
        await wire.finish(failure(str(error)))
        return
    inputs = [asyncio.create_task(_resize(wire, session))] if options.tty else []
    if options.stdin:
        inputs.append(asyncio.create_task(_feed(wire, session)))
    try:
        await _until_over(wire, options, session)
    finally:
        for task in inputs:
            task.cancel()
        await asyncio.gather(*inputs, return_exceptions=True)
        await session.close()


async def _until_over(wire: Wire, options: CommandOptions, session: ExecSession) -> None:
    """What nobody asked for is read too: a process that cannot write does not go on."""
    wants_stderr = options.stderr and not options.tty
    to_stdout = wire.stdout if options.stdout or options.tty else _discard
    outputs = [asyncio.create_task(_drain(session.stdout, to_stdout))]
    if session.stderr is not None:
        to_stderr = wire.stderr if wants_stderr else _discard
        outputs.append(asyncio.create_task(_drain(session.stderr, to_stderr)))
    try:
        code = await session.wait()
        await asyncio.gather(*outputs)
    except ConnectionError:
        return
    finally:
        for task in outputs:
            task.cancel()
        await asyncio.gather(*outputs, return_exceptions=True)
    with contextlib.suppress(ConnectionError):
        await wire.finish(ended(code))


async def _drain(reader: ByteReader, send: Callable[[bytes], Awaitable[None]]) -> None:
    while data := await reader.read(CHUNK):
        await send(data)


async def _discard(_: bytes) -> None:
    return


async def _feed(wire: Wire, session: ExecSession) -> None:
    writer = session.stdin
    if writer is None:
        return
    with contextlib.suppress(ConnectionError, BrokenPipeError):
        while data := await wire.stdin():
            writer.write(data)
            await writer.drain()
        writer.close()


async def _resize(wire: Wire, session: ExecSession) -> None:
    while size := await wire.resize():
        session.resize(*size)


def ended(code: int) -> dict[str, Any]:
    """How a command's end is told: a Status, also for success."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failure(message: str) -> dict[str, Any]:
    return {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "InternalError",
        "code": 500,
    }


class _Size(msgspec.Struct):
    width: int = msgspec.field(default=0, name="Width")
    height: int = msgspec.field(default=0, name="Height")


def read_size(data: bytes) -> tuple[int, int] | None:
    """A terminal size as clients send it; None for what is none."""
    try:
        size = msgspec.json.decode(data, type=_Size)
    except msgspec.MsgspecError:
        return None
    return (size.width, size.height) if size.width and size.height else None
