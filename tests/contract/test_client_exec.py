"""Exec over a real WebSocket, against aiohttp's own server end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import WSMsgType, web

from manta.api.meta import Key
from manta.kube.cluster import Cluster, User
from manta.kube.errors import NotFound, Unreachable
from manta.kube.streams import V5, exec_stream
from manta.kube.transport import HttpTransport
from support.http_fixtures import refusal

KEY = Key("ns", "a")


@asynccontextmanager
async def pod(handler) -> AsyncIterator[HttpTransport]:
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/ns/pods/a/exec", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    [(host, port)] = runner.addresses
    transport = HttpTransport(Cluster(f"http://{host}:{port}", User(token="t")))
    try:
        yield transport
    finally:
        await transport.close()
        await runner.cleanup()


async def test_input_goes_in_and_output_and_exit_code_come_out() -> None:
    async def echo(request: web.Request) -> web.WebSocketResponse:
        assert request.query.getall("command") == ["cat"]
        assert request.headers["authorization"] == "Bearer t"
        socket = web.WebSocketResponse(protocols=[V5])
        await socket.prepare(request)
        async for message in socket:
            if message.data == b"\xff\x00":
                await socket.send_bytes(b'\x03{"kind":"Status","status":"Success"}')
                await socket.close()
            elif message.type is WSMsgType.BINARY:
                await socket.send_bytes(b"\x01" + message.data[1:] * 200_000)
        return socket

    async with pod(echo) as transport, exec_stream(transport, KEY, ["cat"], stdin=True) as session:
        await session.write(b"hello")
        await session.close_stdin()
        output = b"".join([each.data async for each in session.output()])
    assert output == b"hello" * 200_000
    assert session.exit_code == 0


async def test_a_refusal_keeps_the_words_of_the_server() -> None:
    async def refuse(request: web.Request) -> web.Response:
        said = refusal(404, "NotFound", 'pods "a" not found', name="a")
        return web.Response(status=404, body=said.body)

    async with pod(refuse) as transport:
        with pytest.raises(NotFound, match='pods "a" not found'):
            await exec_stream(transport, KEY, ["x"]).__aenter__()


async def test_a_connection_that_breaks_is_a_loss() -> None:
    async def vanish(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=[V5])
        await socket.prepare(request)
        await socket.send_bytes(b"\x01half")
        request.transport.abort()
        return socket

    async with pod(vanish) as transport, exec_stream(transport, KEY, ["x"]) as session:
        with pytest.raises(Unreachable):
            [each async for each in session.output()]
