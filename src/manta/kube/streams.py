"""Commands inside a container, over a WebSocket (v5.channel.k8s.io).

Each message is one byte with the channel's number, then data. The result of the command is a Status on a
channel of its own, which distinguishes an exit code from a broken connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import msgspec

from manta.api.meta import Key
from manta.api.resources import PODS
from manta.kube import requests
from manta.kube.errors import BY_REASON, Malformed, Unavailable, Unreachable
from manta.kube.transport import Query, Request, UpgradingTransport, WebSocket

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, OUTCOME, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
OUTPUTS: dict[int, Literal["stdout", "stderr"]] = {STDOUT: "stdout", STDERR: "stderr"}


@dataclass(frozen=True, slots=True)
class Output:
    stream: Literal["stdout", "stderr"]
    data: bytes


class ExecSession:
    """A running command. `exit_code` is set once `output()` has been read to its end."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.exit_code: int | None = None

    async def write(self, data: bytes) -> None:
        if data:
            await self._socket.send(bytes([STDIN]) + data)

    async def close_stdin(self) -> None:
        """Close the command's standard input. Does nothing on servers that only speak v4."""
        if self._socket.protocol == V5:
            await self._socket.send(bytes([CLOSE, STDIN]))

    async def resize(self, columns: int, rows: int) -> None:
        size = msgspec.json.encode({"Width": columns, "Height": rows})
        await self._socket.send(bytes([RESIZE]) + size)

    async def output(self) -> AsyncIterator[Output]:
        """The output until the command ends. Raises Unreachable if the connection ends first."""
        async for message in self._socket.messages():
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel in OUTPUTS and data:
                yield Output(OUTPUTS[channel], data)
            elif channel == OUTCOME:
                # The last message: how the connection closes after it does not matter.
                self.exit_code = exit_code_of(data)
                return
        raise Unreachable("the connection ended before the command did", sent=True)


@asynccontextmanager
async def exec_stream(  # the query parameters of the API
    transport: UpgradingTransport,
    key: Key,
    command: Sequence[str],
    *,
    container: str = "",
    stdin: bool = False,
    tty: bool = False,
) -> AsyncIterator[ExecSession]:
    """Run `command` in a container of the Pod `key` for as long as the context is open.

    A terminal (`tty`) merges stderr into stdout, so only stdout is requested then. Raises the ApiError with
    which the server refuses, and Unreachable.
    """
    query = exec_query(command, container=container, stdin=stdin, tty=tty)
    request = Request("GET", requests.object_path(PODS, key, "exec"), query)
    async with transport.websocket(request, (V5, V4)) as socket:
        yield ExecSession(socket)


def exec_query(command: Sequence[str], *, container: str, stdin: bool, tty: bool) -> Query:
    """The query of an exec request. Raises ValueError without a command."""
    if not command:
        raise ValueError("no command given to run in the container")
    arguments = tuple(("command", argument) for argument in command)
    return arguments + requests.query_of(
        container=container, stdin=stdin, stdout=True, stderr=not tty, tty=tty
    )


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] = []


class _Outcome(msgspec.Struct):
    """A Status. Kubelets send it without `kind`."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


def exit_code_of(status: bytes) -> int:
    """The exit code in the final Status. Raises the ApiError that kept the command from running, and
    Malformed when `status` is no Status."""
    try:
        outcome = msgspec.json.decode(status, type=_Outcome)
    except msgspec.MsgspecError as error:
        raise Malformed(f"the command's result is not a Status: {error}") from error
    if outcome.status == "Success":
        return 0
    causes = outcome.details.causes if outcome.details else []
    for cause in causes:
        if cause.reason == "ExitCode" and cause.message.isdigit():
            return int(cause.message)
    kind = BY_REASON.get(outcome.reason, Unavailable)
    message = outcome.message or "the command could not be run; the node gives no reason"
    raise kind(outcome.code or 500, outcome.reason, message)
