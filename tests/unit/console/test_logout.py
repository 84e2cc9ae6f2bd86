"""What ends with a login: all that its browser has open, and copies of its cookie."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from manta.api.resources import PODS
from manta.console import server, visitors
from manta.httpserver.messages import HttpResponse
from manta.kube.client import Client
from manta.kube.errors import Unauthorized
from manta.localplane.apiserver.streaming.connector import LogOptions
from support.connector import LocalConnector
from support.console import RunningConsole, running_console

POD = {
    "metadata": {"name": "head", "labels": {"ray.io/cluster": "demo"}},
    "spec": {"nodeName": "n", "containers": [{"name": "ray", "image": "i"}]},
}


class Silent(LocalConnector):
    """A log of one line, which is followed for ever."""

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        async def lines() -> AsyncIterator[bytes]:
            yield b"the only line\n"
            await asyncio.Event().wait()

        return lines()


def chunks(answer: HttpResponse) -> AsyncIterator[bytes]:
    assert answer.status == 200
    return cast("AsyncIterator[bytes]", answer.body)


async def followed(console: RunningConsole) -> AsyncIterator[bytes]:
    """A log whose only line has come."""
    console.plane.app.connector = Silent()
    await console.plane.client.create(PODS, "default", POD)
    log = chunks(await console.get("/pods/default/head/log", "follow=1"))
    assert b"the only line" in await anext(log)
    return log


async def cut(log: AsyncIterator[bytes]) -> None:
    """The log ends as a lost connection, not as if it were whole."""
    async with asyncio.timeout(30):
        with pytest.raises(ConnectionResetError):
            await anext(log)


async def test_a_log_is_followed_no_longer_than_the_token_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused(_client: Client) -> str:
        raise Unauthorized(401, "Unauthorized", "the token was revoked")

    async with running_console(kinds=False) as console:
        monkeypatch.setattr(visitors, "CHECK_SECONDS", -1.0)
        monkeypatch.setattr(server, "CHECK_SECONDS", 0.01)
        log = await followed(console)
        monkeypatch.setattr(visitors, "user_name", refused)
        await cut(log)


async def test_who_downloads_a_log_is_not_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The visitor of another user would take their place, and cut the file."""
    async with running_console(kinds=False) as console:
        monkeypatch.setattr(server, "CHECK_SECONDS", 0.01)
        console.plane.app.connector = Silent()
        await console.plane.client.create(PODS, "default", POD)
        log = chunks(await console.get("/pods/default/head/log", "download=1"))
        assert await anext(log) == b"the only line\n"
        [visitor] = console.visitors._arrived().values()
        visitor._seen -= visitors.IDLE_SECONDS
        more = asyncio.ensure_future(anext(log))
        async with asyncio.timeout(30):
            while visitor.idle() >= visitors.IDLE_SECONDS:
                await asyncio.sleep(0.01)
        more.cancel()
        await asyncio.gather(more, return_exceptions=True)


async def test_logging_out_ends_what_its_windows_have_open() -> None:
    async with running_console(kinds=False) as console:
        log = await followed(console)
        tab = chunks(await console.get("/stream", "page=%2F"))
        await anext(tab)
        assert (await console.post("/logout")).status == 303
        await cut(log)
        async with asyncio.timeout(30):
            async for _ in tab:  # it ends
                pass


async def test_a_copy_of_the_cookie_is_of_no_use_after_the_logout() -> None:
    async with running_console(kinds=False) as console:
        copy = console.cookie
        await console.log_in()
        other = console.cookie
        console.cookie = copy
        assert (await console.get("/")).status == 200
        await console.post("/logout")
        assert (await console.get("/")).status == 401
        console.cookie = other  # another login of the same user
        assert (await console.get("/")).status == 200
