"""Kubernetes' watch tests (apiserver/pkg/storage/testing/watcher_tests.go), asked through the API.

Each test is named after the one whose intent it holds.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.localplane.inprocess import InProcessTransport
from support.contract import Api, Events, pod

INITIAL = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
MARKS = {"allowWatchBookmarks": "true"}
END = "k8s.io/initial-events-end"


async def stored(api: Api, name: str, **labels: str) -> dict[str, Any]:
    return await api.made(api.path("secrets"), {"metadata": {"name": name, "labels": labels}})


async def relabel(api: Api, name: str, **labels: str | None) -> dict[str, Any]:
    answer = await api.patch(api.path("secrets", name), {"metadata": {"labels": labels}})
    assert answer.status == 200
    body: dict[str, Any] = answer.body
    return body


def rv(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["resourceVersion"])


async def now(api: Api) -> str:
    return (await api.get(api.path("secrets"))).version


async def silent(events: Events, seconds: float = 0.5) -> bool:
    try:
        await events.next(seconds)
    except TimeoutError:
        return True
    return False


# ── plain watches ────────────────────────────────────────────────────────────────────────
async def test_watch(api: Api) -> None:
    """Objects enter and leave a selection: each move is one event, the rest is silence."""
    start = await now(api)
    query = {"resourceVersion": start, "labelSelector": "x=1"}
    async with api.watch(api.path("secrets"), query) as events:
        await stored(api, "out", x="0")
        made = await stored(api, "in", x="1")
        await relabel(api, "in", y="1")
        left = await relabel(api, "in", x="0")
        await relabel(api, "in", x="2")
        back = await relabel(api, "in", x="1")
        await api.delete(api.path("secrets", "in"))
        await api.delete(api.path("secrets", "out"))
        assert await events.take(5) == [
            ("ADDED", "in"),
            ("MODIFIED", "in"),
            ("DELETED", "in"),
            ("ADDED", "in"),
            ("DELETED", "in"),
        ]
        assert await silent(events)
    versions = [rv(one["object"]) for one in events.seen]
    assert versions[0] == rv(made)
    assert versions[2] == rv(left)
    assert versions[3] == rv(back)
    assert [int(one) for one in versions] == sorted({int(one) for one in versions})
    # What leaves a selection is shown as it was inside, at the revision at which it left.
    assert events.seen[2]["object"]["metadata"]["labels"] == {"x": "1", "y": "1"}


async def test_watch_from_zero(api: Api) -> None:
    made = await stored(api, "foo")
    async with api.watch(api.path("secrets"), {"resourceVersion": "0"}) as events:
        assert await events.take(1) == [("ADDED", "foo")]
        assert events.seen[0]["object"] == made
    changed = await relabel(api, "foo", a="b")
    async with api.watch(api.path("secrets"), {"resourceVersion": "0"}) as events:
        assert await events.take(1) == [("ADDED", "foo")]
        assert rv(events.seen[0]["object"]) in (rv(made), rv(changed))


async def test_delete_trigger_watch(api: Api) -> None:
    made = await stored(api, "foo")
    async with api.watch(api.path("secrets"), {"resourceVersion": rv(made)}) as events:
        await api.delete(api.path("secrets", "foo"))
        assert await events.take(1) == [("DELETED", "foo")]


async def test_watch_from_non_zero(api: Api) -> None:
    made = await stored(api, "foo")
    await stored(api, "bar")
    async with api.watch(api.path("secrets"), {"resourceVersion": rv(made)}) as events:
        assert await events.take(1) == [("ADDED", "bar")]
        await relabel(api, "foo", a="b")
        assert await events.take(1) == [("MODIFIED", "foo")]


async def test_delayed_watch_delivery(api: Api) -> None:
    """A watcher that reads late still gets everything, in order."""
    start = await now(api)
    async with api.watch(api.path("secrets"), {"resourceVersion": start}) as events:
        for number in range(100):
            await stored(api, f"item-{number:03}")
        assert await events.take(100) == [("ADDED", f"item-{n:03}") for n in range(100)]


async def test_watch_error(api: Api) -> None:
    answer = await api.get(api.path("secrets"), query={"watch": "1", "resourceVersion": "nonsense"})
    assert answer.status == 500
    assert answer.body["kind"] == "Status"


@pytest.mark.embedded_only
async def test_watch_context_cancel(api: Api) -> None:
    """A watch that its client leaves is forgotten by the server."""
    assert isinstance(api.transport, InProcessTransport)
    watchers = api.transport._app.store._watchers
    async with api.watch(api.path("secrets"), {"resourceVersion": await now(api)}) as events:
        assert len(watchers["secrets"]) == 1
        assert events.status == 200
    assert len(watchers["secrets"]) == 0


async def test_watcher_timeout(api: Api) -> None:
    """One watcher that reads nothing holds up neither writers nor the other watchers."""
    query = {"resourceVersion": await now(api)}
    async with (
        api.watch(api.path("secrets"), query),
        api.watch(api.path("secrets"), query) as reader,
    ):
        for number in range(50):
            await stored(api, f"item-{number:02}")
        assert await reader.take(50) == [("ADDED", f"item-{n:02}") for n in range(50)]


async def test_watch_delete_event_object_have_latest_rv(api: Api) -> None:
    made = await stored(api, "foo", a="b")
    async with api.watch(api.path("secrets"), {"resourceVersion": rv(made)}) as events:
        await api.delete(api.path("secrets", "foo"))
        await events.take(1)
        after = await stored(api, "bar")
        last = events.seen[0]["object"]
        assert int(rv(made)) < int(rv(last)) < int(rv(after))
        assert last["metadata"]["labels"] == {"a": "b"}
        assert last["metadata"]["uid"] == made["metadata"]["uid"]


async def test_watch_initialization_signal(api: Api) -> None:
    """The answer to a watch begins at once, even when there is nothing to say."""
    async with asyncio.timeout(5):
        async with api.watch(api.path("secrets"), {"resourceVersion": await now(api)}) as events:
            assert events.status == 200


async def test_cluster_scoped_watch(api: Api) -> None:
    start = (await api.get("/api/v1/namespaces")).version
    name = f"{api.namespace}-cluster"
    for selector, count in ((f"metadata.name={name}", 1), ("metadata.name=nothing", 0)):
        query = {"resourceVersion": start, "fieldSelector": selector}
        async with api.watch("/api/v1/namespaces", query) as events:
            if count:
                await api.made("/api/v1/namespaces", {"metadata": {"name": name}})
                assert await events.take(1) == [("ADDED", name)]
            else:
                assert await silent(events)
    await api.delete(f"/api/v1/namespaces/{name}")


async def test_namespace_scoped_watch(api: Api) -> None:
    other = f"{api.namespace}-watch"
    await api.made("/api/v1/namespaces", {"metadata": {"name": other}})
    start = await now(api)
    label = {"labels": {"of": api.namespace}}
    await api.made(f"/api/v1/namespaces/{other}/secrets", {"metadata": {"name": "a", **label}})
    await api.made(api.path("secrets"), {"metadata": {"name": "a", **label}})
    await api.made(api.path("secrets"), {"metadata": {"name": "b", **label}})
    chosen = {"resourceVersion": start, "labelSelector": f"of={api.namespace}"}
    for path, selector, expected in (
        (api.path("secrets"), "", [(api.namespace, "a"), (api.namespace, "b")]),
        (api.path("secrets"), "metadata.name=b", [(api.namespace, "b")]),
        (f"/api/v1/namespaces/{other}/secrets", "", [(other, "a")]),
        ("/api/v1/secrets", "", [(other, "a"), (api.namespace, "a"), (api.namespace, "b")]),
        ("/api/v1/secrets", "metadata.name=a", [(other, "a"), (api.namespace, "a")]),
        ("/api/v1/secrets", f"metadata.namespace={other}", [(other, "a")]),
    ):
        query = {**chosen, **({"fieldSelector": selector} if selector else {})}
        async with api.watch(path, query) as events:
            found = []
            for _ in expected:
                meta = (await events.next())["object"]["metadata"]
                found.append((meta["namespace"], meta["name"]))
            assert found == expected
    await api.delete(f"/api/v1/namespaces/{other}")


async def test_watch_of_a_pod_by_its_node(api: Api) -> None:
    """Watches by field follow the field: a Pod enters the watch of its node when it is bound."""
    start = (await api.get(api.path("pods"))).version
    query = {"resourceVersion": start, "fieldSelector": "spec.nodeName=n1"}
    async with api.watch(api.path("pods"), query) as events:
        await api.made(api.path("pods"), pod("p", schedulerName="nobody"))
        target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
        await api.made(api.path("pods", "p", "binding"), target)
        assert await events.take(1) == [("ADDED", "p")]
        await api.delete(api.path("pods", "p"), query={"gracePeriodSeconds": "0"})
        while (await events.take(1)) != [("DELETED", "p")]:
            pass


# ── bookmarks ────────────────────────────────────────────────────────────────────────────
async def test_watch_dispatch_bookmark_events(api: Api) -> None:
    """Before a watch ends by its own time, who wants bookmarks gets one to go on from."""
    made = await stored(api, "foo")
    start = rv(made)
    for wanted in (True, False):
        query = {"resourceVersion": start, "timeoutSeconds": "4", **(MARKS if wanted else {})}
        async with api.watch(api.path("secrets"), query) as events:
            rest = await events.rest()
        marks = [one for one in rest if one["type"] == "BOOKMARK"]
        assert bool(marks) is wanted
        for mark in marks:
            assert mark["object"]["kind"] == "Secret"
            assert int(rv(mark["object"])) >= int(start)
            assert "annotations" not in mark["object"]["metadata"]


async def test_optional_watch_bookmarks_with_correct_resource_version(api: Api) -> None:
    """No event at or before a bookmark's revision comes after it."""
    made = await stored(api, "foo")

    async def write() -> None:
        for number in range(40):
            await relabel(api, "foo", n=str(number))
            await asyncio.sleep(0.1)

    query = {"resourceVersion": rv(made), "timeoutSeconds": "4", **MARKS}
    writing = asyncio.create_task(write())
    try:
        async with api.watch(api.path("secrets"), query) as events:
            rest = await events.rest()
    finally:
        await writing
    assert any(one["type"] == "BOOKMARK" for one in rest)
    seen = 0
    for event in rest:
        revision = int(rv(event["object"]))
        assert revision > seen or (event["type"] == "BOOKMARK" and revision == seen)
        seen = revision


# ── initial events ───────────────────────────────────────────────────────────────────────
async def test_send_initial_events_backward_compatibility(api: Api) -> None:
    """Without sendInitialEvents the state still comes first, and its end is marked for those who
    take bookmarks."""
    await stored(api, "foo")
    for marks in (True, False):
        query = {"resourceVersion": "0", **(MARKS if marks else {})}
        async with api.watch(api.path("secrets"), query) as events:
            assert await events.take(1) == [("ADDED", "foo")]
            await silent(events)
            assert (END in str(events.seen)) is marks


SEMANTICS = [
    # resourceVersion, sendInitialEvents, bookmarks -> (state first, end marked)
    ("", True, True, True, True),
    ("", True, False, True, False),
    ("0", True, True, True, True),
    ("now", True, True, True, True),
    ("", False, True, False, False),
    ("0", False, True, False, False),
    ("now", False, True, False, False),
    ("", None, True, True, True),
    ("0", None, True, True, True),
    ("0", None, False, True, False),
    ("now", None, True, False, False),
]


@pytest.mark.parametrize(("version", "initial", "marks", "first", "end"), SEMANTICS)
async def test_watch_semantics(
    api: Api, version: str, initial: bool | None, marks: bool, first: bool, end: bool
) -> None:
    await stored(api, "one")
    last = await stored(api, "two")
    query = dict(MARKS if marks else {})
    if initial is not None:
        query |= {**INITIAL, "sendInitialEvents": str(initial).lower()}
    if version:
        query["resourceVersion"] = rv(last) if version == "now" else version
    async with api.watch(api.path("secrets"), query) as events:
        assert events.status == 200
        if first:
            assert await events.take(2) == [("ADDED", "one"), ("ADDED", "two")]
        if end:
            mark = await events.next()
            assert mark["type"] == "BOOKMARK"
            assert mark["object"]["metadata"]["annotations"] == {END: "true"}
            assert int(rv(mark["object"])) >= int(rv(last))
        await asyncio.sleep(0.1)  # a watch "from now" must have begun before the write
        await stored(api, "three")
        assert (await events.take(1)) == [("ADDED", "three")]
        assert all(END not in str(one) for one in events.seen[-1:])


async def test_watch_semantic_initial_events_extended(api: Api) -> None:
    """The end is marked after the state, not before, also when objects change meanwhile."""
    for number in range(20):
        await stored(api, f"item-{number:02}")

    async def churn() -> None:
        for number in range(20):
            await relabel(api, f"item-{number:02}", changed="yes")

    changing = asyncio.create_task(churn())
    async with api.watch(api.path("secrets"), {**INITIAL, **MARKS}) as events:
        held: dict[str, int] = {}
        while True:
            event = await events.next()
            if END in str(event):
                break
            held[event["object"]["metadata"]["name"]] = int(rv(event["object"]))
        assert len(held) == 20
        assert int(rv(event["object"])) >= max(held.values())
        await changing
        state = await api.get(api.path("secrets"))
        wanted = {one["metadata"]["name"]: int(rv(one)) for one in state.body["items"]}
        while held != wanted:
            event = await events.next()
            name = event["object"]["metadata"].get("name")
            if name:
                assert int(rv(event["object"])) > held[name]
                held[name] = int(rv(event["object"]))


async def test_watch_list_match_single(api: Api) -> None:
    await stored(api, "foo")
    await stored(api, "bar")
    query = {**INITIAL, **MARKS, "fieldSelector": "metadata.name=foo"}
    async with api.watch(api.path("secrets"), query) as events:
        assert await events.take(1) == [("ADDED", "foo")]
        assert END in str(await events.next())
        await relabel(api, "bar", a="b")
        await relabel(api, "foo", a="b")
        assert await events.take(1) == [("MODIFIED", "foo")]


@pytest.mark.embedded_only
async def test_watch_error_is_blocking_further_events(api: Api) -> None:
    """After an error in the stream nothing more comes: the client must list again."""
    made = await stored(api, "foo")
    await relabel(api, "foo", a="b")
    assert isinstance(api.transport, InProcessTransport)
    store = api.transport._app.store
    store.resource("secrets").compact(store.revision)
    async with api.watch(api.path("secrets"), {"resourceVersion": rv(made)}) as events:
        rest = await events.rest()
    assert [one["type"] for one in rest] == ["ERROR"]
    assert rest[0]["object"]["code"] == 410
