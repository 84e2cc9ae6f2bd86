"""Exec sessions over scripted messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from manta.api.meta import Key
from manta.kube.errors import ApiError, Unreachable
from manta.kube.streams import V4, V5, ExecSession, Output, exec_query, exec_stream, exit_code_of
from manta.kube.transport import Request

SUCCESS = b'{"kind":"Status","status":"Success"}'


def failed(code: str) -> bytes:
    causes = [{"reason": "ExitCode", "message": code}]
    return msgspec.json.encode(
        {
            "kind": "Status",
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "details": {"causes": causes},
        }
    )


@dataclass
class ScriptedSocket:
    incoming: Sequence[bytes] = ()
    protocol: str = V5
    sent: list[bytes] = field(default_factory=list)

    async def send(self, message: bytes) -> None:
        self.sent.append(message)

    async def messages(self) -> AsyncIterator[bytes]:
        for message in self.incoming:
            yield message


async def test_output_comes_by_stream_and_the_exit_code_last() -> None:
    socket = ScriptedSocket(
        [b"\x01", b"\x01out", b"", b"\x02err", b"\x01more", b"\x03" + failed("7")]
    )
    session = ExecSession(socket)
    got = [each async for each in session.output()]
    assert got == [Output("stdout", b"out"), Output("stderr", b"err"), Output("stdout", b"more")]
    assert session.exit_code == 7


async def test_an_end_without_an_outcome_is_a_loss() -> None:
    session = ExecSession(ScriptedSocket([b"\x01out"]))
    with pytest.raises(Unreachable, match="before the command did"):
        [each async for each in session.output()]


async def test_input_and_resizing_go_on_their_channels() -> None:
    socket = ScriptedSocket()
    session = ExecSession(socket)
    await session.write(b"hello")
    await session.write(b"")
    await session.resize(80, 24)
    await session.close_stdin()
    assert socket.sent == [b"\x00hello", b'\x04{"Width":80,"Height":24}', b"\xff\x00"]


async def test_an_older_server_does_not_see_the_end_of_input() -> None:
    socket = ScriptedSocket(protocol=V4)
    await ExecSession(socket).close_stdin()
    assert socket.sent == []


def test_outcomes() -> None:
    assert exit_code_of(SUCCESS) == 0
    assert exit_code_of(failed("137")) == 137
    with pytest.raises(ApiError, match="container not found"):
        exit_code_of(b'{"kind":"Status","status":"Failure","message":"container not found"}')


def test_a_terminal_merges_the_outputs() -> None:
    plain = exec_query(["ls", "-l"], container="c", stdin=False, tty=False)
    terminal = exec_query(["sh"], container="", stdin=True, tty=True)
    assert plain == (
        ("command", "ls"),
        ("command", "-l"),
        ("container", "c"),
        ("stdout", "true"),
        ("stderr", "true"),
    )
    assert ("stderr", "true") not in terminal
    with pytest.raises(ValueError, match="no command"):
        exec_query([], container="", stdin=False, tty=False)


async def test_exec_opens_a_socket_below_the_pod() -> None:
    opened: list[tuple[Request, Sequence[str]]] = []

    class Upgrading:
        @asynccontextmanager
        async def websocket(self, request, protocols) -> AsyncIterator[ScriptedSocket]:
            opened.append((request, protocols))
            yield ScriptedSocket([b"\x03" + SUCCESS])

    transport: Any = Upgrading()
    async with exec_stream(transport, Key("ns", "a"), ["true"]) as session:
        assert [each async for each in session.output()] == []
    assert session.exit_code == 0
    [(request, protocols)] = opened
    assert request.path == "/api/v1/namespaces/ns/pods/a/exec"
    assert list(protocols) == [V5, V4]
