"""Watches: nothing missed, nothing doubled, from any revision; selectors, bookmarks, streams."""

from __future__ import annotations

import asyncio

import pytest

from support.contract import TABLE, Api, Widgets, config_map


async def changed(api: Api, widgets: Widgets) -> None:
    """Create, label, unlabel, delete."""
    await widgets.made("wa")
    await api.patch(widgets.path("wa"), {"metadata": {"labels": {"x": "1"}}})
    await api.patch(widgets.path("wa"), {"metadata": {"labels": {"x": "2"}}})
    await api.delete(widgets.path("wa"))


WHOLE_LIFE = [("ADDED", "wa"), ("MODIFIED", "wa"), ("MODIFIED", "wa"), ("DELETED", "wa")]


async def test_a_watch_resumes_at_any_revision(api: Api, widgets: Widgets) -> None:
    start = (await api.get(widgets.path())).version
    await changed(api, widgets)
    async with api.watch(widgets.path(), {"resourceVersion": start}) as events:
        assert events.status == 200
        assert await events.take(4) == WHOLE_LIFE
    second = events.seen[1]["object"]["metadata"]["resourceVersion"]
    async with api.watch(widgets.path(), {"resourceVersion": second}) as events:
        assert await events.take(2) == WHOLE_LIFE[2:]


async def test_revisions_grow_and_a_deletion_has_its_own(api: Api, widgets: Widgets) -> None:
    start = (await api.get(widgets.path())).version
    await changed(api, widgets)
    async with api.watch(widgets.path(), {"resourceVersion": start}) as events:
        await events.take(4)
    revisions = [int(one["object"]["metadata"]["resourceVersion"]) for one in events.seen]
    assert revisions == sorted(set(revisions))


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_without_a_revision_the_state_comes_first(
    api: Api, widgets: Widgets, query: dict[str, str]
) -> None:
    await widgets.made("old")
    async with api.watch(widgets.path(), query) as events:
        assert await events.take(1) == [("ADDED", "old")]
        await widgets.made("new")
        assert await events.take(1) == [("ADDED", "new")]


async def test_objects_enter_and_leave_a_selection(api: Api, widgets: Widgets) -> None:
    start = (await api.get(widgets.path())).version
    query = {"resourceVersion": start, "labelSelector": "x=1"}
    async with api.watch(widgets.path(), query) as events:
        await changed(api, widgets)
        assert await events.take(2) == [("ADDED", "wa"), ("DELETED", "wa")]
        gone = events.seen[1]["object"]["metadata"]
        assert int(gone["resourceVersion"]) > int(
            events.seen[0]["object"]["metadata"]["resourceVersion"]
        )


async def test_one_object_can_be_watched(api: Api) -> None:
    await api.made(api.path("configmaps"), config_map("a"))
    await api.made(api.path("configmaps"), config_map("b"))
    query = {"fieldSelector": "metadata.name=b", "resourceVersion": "0"}
    async with api.watch(api.path("configmaps"), query) as events:
        await api.patch(api.path("configmaps", "a"), {"data": {"k": "2"}})
        await api.patch(api.path("configmaps", "b"), {"data": {"k": "2"}})
        assert await events.take(2) == [("ADDED", "b"), ("MODIFIED", "b")]


async def test_namespaces_do_not_see_each_other(api: Api) -> None:
    start = (await api.get(api.path("configmaps"))).version
    async with api.watch(api.path("configmaps"), {"resourceVersion": start}) as events:
        body = config_map("elsewhere")
        await api.create("/api/v1/namespaces/default/configmaps", body)
        await api.delete("/api/v1/namespaces/default/configmaps/elsewhere")
        await api.made(api.path("configmaps"), config_map("here"))
        assert await events.take(1) == [("ADDED", "here")]


async def test_a_streaming_list_ends_with_a_bookmark(api: Api, widgets: Widgets) -> None:
    await widgets.made("a")
    await widgets.made("b")
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with api.watch(widgets.path(), query) as events:
        assert await events.take(2) == [("ADDED", "a"), ("ADDED", "b")]
        mark = await events.next()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["kind"] == "Widget"
        meta = mark["object"]["metadata"]
        assert meta["annotations"] == {"k8s.io/initial-events-end": "true"}
        await widgets.made("c")
        assert await events.take(1) == [("ADDED", "c")]
        later = events.seen[-1]["object"]["metadata"]["resourceVersion"]
        assert int(later) > int(meta["resourceVersion"])


async def test_a_streaming_list_of_nothing_ends_too(api: Api, widgets: Widgets) -> None:
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "resourceVersion": "0",
    }
    async with api.watch(widgets.path(), query) as events:
        assert (await events.next())["type"] == "BOOKMARK"


async def test_a_streaming_list_needs_its_match(api: Api) -> None:
    query = {"watch": "1", "sendInitialEvents": "true"}
    answer = await api.get(api.path("configmaps"), query=query)
    assert answer.status == 422
    assert answer.causes == [("resourceVersionMatch", "FieldValueForbidden")]


async def test_a_revision_that_is_no_number_fails(api: Api) -> None:
    answer = await api.get(api.path("configmaps"), query={"watch": "1", "resourceVersion": "abc"})
    assert answer.status == 500
    assert 'parsing "abc": invalid syntax' in answer.message


async def test_a_watch_ends_when_its_time_is_over(api: Api) -> None:
    start = (await api.get(api.path("configmaps"))).version
    query = {"timeoutSeconds": "1", "resourceVersion": start}
    async with api.watch(api.path("configmaps"), query) as events:
        assert await events.rest() == []


async def test_table_watches_name_their_columns_once(api: Api, widgets: Widgets) -> None:
    start = (await api.get(widgets.path())).version
    async with api.watch(widgets.path(), {"resourceVersion": start}, TABLE) as events:
        await changed(api, widgets)
        tables = [await events.next() for _ in range(4)]
    assert [one["type"] for one in tables] == [kind for kind, _ in WHOLE_LIFE]
    assert [bool(one["object"].get("columnDefinitions")) for one in tables] == [True] + [False] * 3
    assert all(one["object"]["rows"][0]["cells"][0] == "wa" for one in tables)


async def test_many_writers_and_one_watcher_agree(api: Api) -> None:
    start = (await api.get(api.path("configmaps"))).version

    async def write(number: int) -> None:
        name = f"w{number}"
        await api.made(api.path("configmaps"), config_map(name))
        for value in range(3):
            await api.patch(api.path("configmaps", name), {"data": {"k": f"x{value}"}})
        await api.delete(api.path("configmaps", name))

    async with api.watch(api.path("configmaps"), {"resourceVersion": start}) as events:
        await asyncio.gather(*(write(number) for number in range(10)))
        seen = await events.take(50)
    for number in range(10):
        kinds = [kind for kind, name in seen if name == f"w{number}"]
        assert kinds == ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]
    revisions = [int(one["object"]["metadata"]["resourceVersion"]) for one in events.seen]
    assert revisions == sorted(set(revisions))
