"""Exec and attach: copies three streams between a client and a process.

SPDY and WebSocket each implement `CommandStreams`, the streams of the client.
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

CHUNK_BYTES = 32 * 1024
OpenSession = Callable[[], Awaitable[ExecSession]]


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """The query of exec and attach."""

    container: str
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class CommandStreams(Protocol):
    """The streams of the client."""

    async def stdin(self) -> bytes:
        """Return the next input; b"" at the end."""

    async def resize(self) -> tuple[int, int] | None:
        """Return the next terminal size (columns, rows); None at the end."""

    async def stdout(self, data: bytes) -> None: ...
    async def stderr(self, data: bytes) -> None: ...

    async def finish(self, status: dict[str, Any]) -> None:
        """Send the Status of the command after all output, and close the streams."""


async def run_command(
    streams: CommandStreams, options: CommandOptions, open_session: OpenSession
) -> None:
    """Start the command, copy its streams until it ends, and send its exit code."""
    try:
        session = await open_session()
    except ContainerUnavailable as error:
        await streams.finish(failure(str(error)))
        return
    inputs = [asyncio.create_task(_resize(streams, session))] if options.tty else []
    if options.stdin:
        inputs.append(asyncio.create_task(_feed(streams, session)))
    try:
        await _copy_output(streams, options, session)
    finally:
        for task in inputs:
            task.cancel()
        await asyncio.gather(*inputs, return_exceptions=True)
        await session.close()


async def _copy_output(
    streams: CommandStreams, options: CommandOptions, session: ExecSession
) -> None:
    """Read all output, requested or not: a process blocks when nobody reads its output."""
    wants_stderr = options.stderr and not options.tty
    to_stdout = streams.stdout if options.stdout or options.tty else _discard
    outputs = [asyncio.create_task(_drain(session.stdout, to_stdout))]
    if session.stderr is not None:
        to_stderr = streams.stderr if wants_stderr else _discard
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
        await streams.finish(ended(code))


async def _drain(reader: ByteReader, send: Callable[[bytes], Awaitable[None]]) -> None:
    while data := await reader.read(CHUNK_BYTES):
        await send(data)


async def _discard(_: bytes) -> None:
    return


async def _feed(streams: CommandStreams, session: ExecSession) -> None:
    writer = session.stdin
    if writer is None:
        return
    with contextlib.suppress(ConnectionError, BrokenPipeError):
        while data := await streams.stdin():
            writer.write(data)
            await writer.drain()
        writer.close()


async def _resize(streams: CommandStreams, session: ExecSession) -> None:
    while size := await streams.resize():
        session.resize(*size)


def ended(code: int) -> dict[str, Any]:
    """Return the Status for an exit code."""
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


def error_payload(status: dict[str, Any], *, as_status: bool) -> bytes:
    """Return what goes to the error stream: the Status, or its message for older protocols."""
    if as_status:
        return msgspec.json.encode(status)
    return b"" if status["status"] == "Success" else str(status.get("message", "")).encode()


class _Size(msgspec.Struct):
    width: int = msgspec.field(default=0, name="Width")
    height: int = msgspec.field(default=0, name="Height")


def read_size(data: bytes) -> tuple[int, int] | None:
    """Return a terminal size as clients send it; None if it is invalid."""
    try:
        size = msgspec.json.decode(data, type=_Size)
    except msgspec.MsgspecError:
        return None
    return (size.width, size.height) if size.width and size.height else None
