"""Watches over time: bookmarks, ends, what is too old, what is too slow."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from manta.api.meta import Key
from manta.api.resources import CONFIG_MAPS
from manta.kube.transport import Request
from manta.localplane.inprocess import InProcessTransport
from support.virtual import virtual_plane, virtually

PATH = "/api/v1/namespaces/default/configmaps"


def watch(plane, **query):
    pairs = (("watch", "1"), *query.items())
    return InProcessTransport(plane.app).stream(Request("GET", PATH, pairs))


async def lines(stream, count=10**9):
    found = []
    async for chunk in stream.chunks():
        found += [json.loads(line) for line in chunk.splitlines()]
        if len(found) >= count:
            break
    return found


def body(name="a"):
    return {"metadata": {"name": name}}


@virtually
async def test_silence_is_filled_with_bookmarks() -> None:
    async with (
        virtual_plane() as plane,
        watch(plane, allowWatchBookmarks="true", resourceVersion="1") as stream,
    ):
        found = await lines(stream, 3)
        assert [one["type"] for one in found] == ["BOOKMARK"] * 3
        assert {one["object"]["metadata"]["resourceVersion"] for one in found} == {
            str(plane.app.store.revision)
        }
        assert asyncio.get_running_loop().time() >= 90


@virtually
async def test_a_watch_ends_by_itself_at_last() -> None:
    async with virtual_plane() as plane, watch(plane, resourceVersion="1") as stream:
        assert await lines(stream) == []
        assert asyncio.get_running_loop().time() >= 1800


@virtually
async def test_what_is_forgotten_is_an_error_inside_the_stream() -> None:
    async with virtual_plane() as plane:
        await plane.client.create(CONFIG_MAPS, "default", body())
        store = plane.app.store
        store.resource("configmaps").compact(store.revision)
        async with watch(plane, resourceVersion="1") as stream:
            assert stream.status == 200
            (error,) = await lines(stream)
        assert error["type"] == "ERROR"
        assert (error["object"]["code"], error["object"]["reason"]) == (410, "Expired")
        assert error["object"]["message"] == f"too old resource version: 1 ({store.revision})"


@virtually
async def test_a_streaming_list_waits_for_the_revision_it_was_promised() -> None:
    async with virtual_plane() as plane:
        future = plane.app.store.revision + 1
        query = {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "resourceVersion": str(future),
            "allowWatchBookmarks": "true",
        }

        async def look():
            async with watch(plane, **query) as stream:
                return await lines(stream, 2)

        looking = asyncio.create_task(look())
        await asyncio.sleep(1)
        await plane.client.create(CONFIG_MAPS, "default", body())
        assert [one["type"] for one in await looking] == ["ADDED", "BOOKMARK"]


@virtually
async def test_a_revision_that_never_comes_is_an_error() -> None:
    async with virtual_plane() as plane:
        query = {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "resourceVersion": "999999",
        }
        async with watch(plane, **query) as stream:
            (error,) = await lines(stream)
        assert error["object"]["reason"] == "Timeout"


@virtually
async def test_watchers_share_the_bytes_of_an_event() -> None:
    async with virtual_plane() as plane:
        async with (
            watch(plane, resourceVersion="0") as one,
            watch(plane, resourceVersion="0") as two,
        ):
            await plane.client.create(CONFIG_MAPS, "default", body())
            assert await lines(one, 1) == await lines(two, 1)
            (change,) = plane.app.store.resource("configmaps").changes_after(0)
            assert list(change.encoded or {}) == [("ADDED", "v1")]
        assert plane.app.store.watcher_count("configmaps") == 0


@virtually
async def test_a_watch_that_nobody_reads_is_forgotten_too() -> None:
    async with virtual_plane() as plane:
        async with watch(plane):
            assert plane.app.store.watcher_count("configmaps") == 1
        assert plane.app.store.watcher_count("configmaps") == 0


@virtually
async def test_a_continued_list_that_is_too_old_offers_a_way_on() -> None:
    async with virtual_plane() as plane:
        for name in "abc":
            await plane.client.create(CONFIG_MAPS, "default", body(name))
        transport, store = InProcessTransport(plane.app), plane.app.store
        first = await transport.send(Request("GET", PATH, (("limit", "1"),)))
        token = json.loads(first.body)["metadata"]["continue"]
        await plane.client.delete(CONFIG_MAPS, Key("default", "b"))
        store.resource("configmaps").compact(store.revision)
        query: Any = (("limit", "1"), ("continue", token))
        stale = await transport.send(Request("GET", PATH, query))
        status = json.loads(stale.body)
        assert (stale.status, status["reason"]) == (410, "Expired")
        query = (("continue", status["metadata"]["continue"]),)
        rest = json.loads((await transport.send(Request("GET", PATH, query))).body)
        assert [one["metadata"]["name"] for one in rest["items"]] == ["c"]
