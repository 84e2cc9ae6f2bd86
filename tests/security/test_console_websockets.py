"""WebSockets through the Service proxy of the console's API: whose rights, and what passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.http11 import Request, Response

from security.test_console_api import HEAD, PROXY, with_services
from support.console_api import ServedApi, head_of, send

EVIL = ("Set-Cookie", "manta-console-1=stolen")


@asynccontextmanager
async def with_echo() -> AsyncIterator[tuple[ServedApi, list[Headers]]]:
    """A Service of Ray that says what it hears, and the headers of those who came."""
    seen: list[Headers] = []

    async def echo(socket: ServerConnection) -> None:
        async for message in socket:
            await socket.send(message)

    def answer(socket: ServerConnection, request: Request, response: Response) -> Response:
        seen.append(request.headers)
        response.headers[EVIL[0]] = EVIL[1]
        return response

    async with (
        serve(echo, "127.0.0.1", 0, process_response=answer, subprotocols=["ray"]) as server,  # type: ignore[list-item]
        with_services() as (api, _),
    ):
        api.connector.ports[8265] = server.sockets[0].getsockname()[1]
        yield api, seen


def opened(api: ServedApi, path: str, **headers: str) -> connect:
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return connect(
        f"ws://127.0.0.1:{api.port}{path}",
        additional_headers=named,
        subprotocols=["ray"],  # type: ignore[list-item]
        proxy=None,
    )


async def refused(api: ServedApi, path: str, **headers: str) -> int:
    with pytest.raises(InvalidStatus) as found:
        async with opened(api, path, **headers):
            pass
    return found.value.response.status_code


async def test_a_websocket_passes_both_ways_with_the_callers_token_and_no_cookie() -> None:
    async with with_echo() as (api, seen):
        socket: ClientConnection
        async with opened(
            api, f"{HEAD}/logs?a=1", authorization="Bearer edith-token", cookie="a=1"
        ) as socket:
            assert socket.subprotocol == "ray"
            for message in ("words", "x" * 300_000, b"bytes"):
                await socket.send(message)
                assert await socket.recv() == message
        assert socket.response is not None
        assert EVIL[0] not in socket.response.headers
        [headers] = seen
        assert "cookie" not in headers
        assert "authorization" not in headers
        counted = api.handler._api._callers._open
        async with asyncio.timeout(20):
            while counted:
                await asyncio.sleep(0.02)


async def test_a_websocket_has_the_rights_of_its_caller() -> None:
    async with with_echo() as (api, seen):
        bearer = "Bearer edith-token"
        assert await refused(api, HEAD) == 401
        assert await refused(api, HEAD, authorization="Bearer wrong") == 401
        assert await refused(api, HEAD, cookie=api.cookie()) == 403
        assert await refused(api, PROXY.format("bank"), authorization=bearer) == 404
        other = HEAD.replace("team-a", "team-b")
        assert await refused(api, other, authorization=bearer) in (403, 404)
        assert await refused(api, HEAD, authorization=bearer, impersonate_user="root") == 400
        assert seen == []


async def test_a_service_that_does_not_upgrade_gives_no_page_of_its_own() -> None:
    async with with_services() as (api, _):
        line = await api.connect()
        upgrade = {
            "connection": "Upgrade", "upgrade": "websocket",
            "sec_websocket_version": "13", "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
        }  # fmt: skip
        await send(line, "GET", f"{HEAD}/", token="edith-token", **upgrade)
        status, headers = await head_of(line)
        assert status == 502
        assert "set-cookie" not in headers
        assert headers["content-type"] == "application/json"


async def test_the_end_of_one_side_is_the_end_of_the_other() -> None:
    async with (
        with_echo() as (api, _),
        opened(api, HEAD, authorization="Bearer edith-token") as socket,
    ):
        await socket.send("a")
        await socket.recv()
        await api.stop_kubernetes()
        async with asyncio.timeout(20):
            await socket.wait_closed()
