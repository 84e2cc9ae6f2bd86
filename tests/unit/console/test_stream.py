"""What a tab must change."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import msgspec

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.console.html import tag
from manta.console.pages.page import Page, Section
from manta.console.sessions import Session
from manta.console.stream import ALIVE, RELOAD, RETRY, changes, digest, message, page_stream, shape
from manta.console.visitors import Visitor
from manta.kube.errors import Unreachable
from support.console import RunningConsole, running_console

CLUSTER = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "demo"}, "spec": {"headGroupSpec": {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}}}  # fmt: skip


def test_an_equal_page_changes_nothing() -> None:
    assert changes({"a": "x", "t": {"1": "r"}}, {"a": "x", "t": {"1": "r"}}) == {}


def test_only_rows_that_differ_are_sent() -> None:
    before = {"t": {"1": "one", "2": "two"}}
    assert changes(before, {"t": {"1": "one", "2": "TWO"}}) == {"t": {"rows": {"2": "TWO"}}}


def test_a_new_order_is_sent_with_the_new_row() -> None:
    found = changes({"t": {"1": "one", "2": "two"}}, {"t": {"3": "three", "1": "one"}})
    assert found == {"t": {"rows": {"3": "three"}, "order": ["3", "1"]}}


def test_a_message_is_one_line_of_json() -> None:
    assert message({"a": tag("p", "x\n\ny")}) == b'data: {"a":"<p>x\\n\\ny</p>"}\n\n'


def test_the_digest_differs_when_a_row_does() -> None:
    assert digest({"t": {"1": "a"}}) != digest({"t": {"1": "b"}})


def test_a_page_with_other_regions_has_another_shape() -> None:
    assert shape({"a": "x", "t": {"1": "r"}}) == shape({"a": "y", "t": {}})
    assert shape({"a": "x"}) != shape({"a": "x", "t": {}})


@asynccontextmanager
async def opened(console: RunningConsole, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
    """The stream of a tab that shows this page."""
    page = cast("bytes", (await console.get(path)).body).decode()
    found = re.search(r'data-shape="(\w+)"', page)
    assert found is not None
    answer = await console.get("/stream", f"page={path}&shape={found[1]}")
    body = cast("AsyncIterator[bytes]", answer.body)
    try:
        yield body
    finally:
        await body.aclose()  # type: ignore[attr-defined]


async def test_a_tab_of_an_object_that_is_deleted_loads_its_page_again() -> None:
    """Its sections cannot become those of the page that says so."""
    async with running_console() as console:
        client = console.plane.client
        await client.create(RAY_CLUSTERS, "default", CLUSTER)
        while (await console.get("/rayclusters/default/demo")).status != 200:
            pass
        async with opened(console, "/rayclusters/default/demo") as messages:
            assert await anext(messages) == RETRY
            await anext(messages)
            await client.delete(RAY_CLUSTERS, Key("default", "demo"))
            assert RELOAD in [one async for one in messages]  # and the stream ends
        async with opened(console, "/rayclusters/default/demo") as messages:
            await client.create(RAY_CLUSTERS, "default", CLUSTER)
            assert RELOAD in [one async for one in messages]


class _Watch:
    version = 0
    why = ""

    def trouble(self) -> str:
        return self.why

    async def wait_newer(self, version: int, seconds: float) -> None: ...


class _Visitor:
    def __init__(self) -> None:
        self.watch = _Watch()
        self.streams = 0

    def visit(self) -> None: ...


async def test_a_tab_says_why_it_may_be_out_of_date_until_it_no_longer_is() -> None:
    visitor = _Visitor()
    fails = False

    async def render() -> Page:
        if fails:
            raise Unreachable("connection refused", sent=False)
        return Page("t", tag("h1", "t"), (Section("a", "", tag("p", "x")),))

    stream = page_stream(cast("Visitor", visitor), render, "")
    found = [await anext(stream) for _ in range(2)]
    fails = True
    found += [await anext(stream) for _ in range(3)]
    fails, visitor.watch.why = False, "What you see may be out of date: gone"
    found += [await anext(stream) for _ in range(2)]
    visitor.watch.why = ""
    found += [await anext(stream) for _ in range(3)]
    await stream.aclose()  # type: ignore[attr-defined]
    told = [
        msgspec.json.decode(one.split(b"data: ")[1]) for one in found if b"event: trouble" in one
    ]
    assert told == [
        "This page cannot be brought up to date: connection refused",
        "What you see may be out of date: gone",
        "",
    ]
    assert found.count(ALIVE) == 5


async def test_a_tab_whose_visitor_has_left_comes_back_as_a_new_one() -> None:
    """One window got a 401 that has passed: the others must not ask with its closed client for ever."""
    async with running_console() as console:
        async with opened(console, "/") as messages:
            await anext(messages)
            await anext(messages)
            await console.visitors.log_out(Session(expires=0.0))
            async with asyncio.timeout(30):
                assert not [one async for one in messages if b"trouble" in one]  # the stream ends
        async with opened(console, "/") as messages:
            await console.plane.client.create(RAY_CLUSTERS, "default", CLUSTER)
            async with asyncio.timeout(30):
                while b"demo" not in await anext(messages):
                    pass
