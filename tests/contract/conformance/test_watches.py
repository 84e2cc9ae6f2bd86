"""Watchers (5), CRD watch (1), chunking (2), tables (1), server version (1).

Each test is named after the intent of one of Kubernetes' own API-machinery conformance tests.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.localplane.inprocess import InProcessTransport
from support.contract import TABLE, Api, config_map, widget_definition

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def labelled(name: str, label: str, **data: str) -> dict[str, Any]:
    return config_map(name, {"mutation": "0", **data}, labels={"watch-this": label})


# ── watchers ─────────────────────────────────────────────────────────────────────────────
async def test_watchers_should_observe_add_update_and_delete_notifications(api: Api) -> None:
    where = api.path("configmaps")
    async with (
        api.watch(where, {"labelSelector": "watch-this=a"}) as only_a,
        api.watch(where, {"labelSelector": "watch-this=b"}) as only_b,
        api.watch(where, {"labelSelector": "watch-this in (a,b)"}) as both,
    ):
        await api.made(where, labelled("ca", "a"))
        await api.patch(f"{where}/ca", {"data": {"mutation": "1"}})
        await api.patch(f"{where}/ca", {"data": {"mutation": "2"}})
        await api.delete(f"{where}/ca")
        await api.made(where, labelled("cb", "b"))
        await api.delete(f"{where}/cb")
        of_a = [("ADDED", "ca"), ("MODIFIED", "ca"), ("MODIFIED", "ca"), ("DELETED", "ca")]
        of_b = [("ADDED", "cb"), ("DELETED", "cb")]
        assert await only_a.take(4) == of_a
        assert await only_b.take(2) == of_b
        assert await both.take(6) == of_a + of_b


async def test_watchers_should_start_from_a_specific_resource_version(api: Api) -> None:
    where = api.path("configmaps")
    await api.made(where, labelled("c", "a"))
    first = await api.patch(f"{where}/c", {"data": {"mutation": "1"}})
    await api.patch(f"{where}/c", {"data": {"mutation": "2"}})
    await api.delete(f"{where}/c")
    query = {"resourceVersion": first.version, "labelSelector": "watch-this=a"}
    async with api.watch(where, query) as events:
        assert await events.take(2) == [("MODIFIED", "c"), ("DELETED", "c")]


async def test_watchers_should_restart_from_the_last_version_observed(api: Api) -> None:
    where = api.path("configmaps")
    async with api.watch(where, {"labelSelector": "watch-this=a"}) as events:
        await api.made(where, labelled("c", "a"))
        await api.patch(f"{where}/c", {"data": {"mutation": "1"}})
        assert await events.take(2) == [("ADDED", "c"), ("MODIFIED", "c")]
        last = events.seen[-1]["object"]["metadata"]["resourceVersion"]
    await api.patch(f"{where}/c", {"data": {"mutation": "2"}})
    await api.delete(f"{where}/c")
    query = {"resourceVersion": last, "labelSelector": "watch-this=a"}
    async with api.watch(where, query) as events:
        assert await events.take(2) == [("MODIFIED", "c"), ("DELETED", "c")]


async def test_watchers_should_observe_a_deletion_when_the_selector_is_left(api: Api) -> None:
    where = api.path("configmaps")
    relabel = {"metadata": {"labels": {"watch-this": "wrong"}}}
    async with api.watch(where, {"labelSelector": "watch-this=a"}) as events:
        await api.made(where, labelled("c", "a"))
        await api.patch(f"{where}/c", {"data": {"mutation": "1"}})
        await api.patch(f"{where}/c", relabel)
        assert await events.take(3) == [("ADDED", "c"), ("MODIFIED", "c"), ("DELETED", "c")]
        await api.patch(f"{where}/c", {"data": {"mutation": "2"}})
        await api.patch(f"{where}/c", {"metadata": {"labels": {"watch-this": "a"}}})
        await api.patch(f"{where}/c", {"data": {"mutation": "3"}})
        await api.delete(f"{where}/c")
        assert await events.take(3) == [("ADDED", "c"), ("MODIFIED", "c"), ("DELETED", "c")]
        assert events.seen[3]["object"]["data"]["mutation"] == "2"


async def test_watchers_should_receive_events_in_the_same_order(api: Api) -> None:
    where = api.path("configmaps")
    start = (await api.get(where)).version

    async def churn(number: int) -> None:
        for turn in range(5):
            name = f"c{number}-{turn}"
            await api.made(where, config_map(name))
            await api.patch(f"{where}/{name}", {"data": {"k": "2"}})
            await api.delete(f"{where}/{name}")

    await asyncio.gather(*(churn(number) for number in range(4)))
    orders: list[list[tuple[str, str, str]]] = []
    for _ in range(5):
        async with api.watch(where, {"resourceVersion": start}) as events:
            await events.take(60)
        orders.append(
            [
                (
                    one["type"],
                    one["object"]["metadata"]["name"],
                    one["object"]["metadata"]["resourceVersion"],
                )
                for one in events.seen
            ]
        )
    assert all(order == orders[0] for order in orders)
    revisions = [int(revision) for _, _, revision in orders[0]]
    assert revisions == sorted(set(revisions))


async def test_watch_on_custom_resource_definition_objects(api: Api) -> None:
    suffix = api.namespace.rpartition("-")[2]
    name = widget_definition(suffix)["metadata"]["name"]
    query = {"fieldSelector": f"metadata.name={name}"}
    async with api.watch(DEFINITIONS, query) as events:
        await api.made(DEFINITIONS, widget_definition(suffix))
        assert (await events.take(1)) == [("ADDED", name)]
        await api.patch(f"{DEFINITIONS}/{name}", {"metadata": {"labels": {"x": "y"}}})
        while (await events.next())["object"]["metadata"].get("labels") != {"x": "y"}:
            pass
        await api.delete(f"{DEFINITIONS}/{name}")
        while (await events.next())["type"] != "DELETED":
            pass


# ── chunking ─────────────────────────────────────────────────────────────────────────────
async def fill(api: Api, count: int) -> str:
    where = api.path("podtemplates")
    spec = {"containers": [{"name": "test", "image": "test2"}]}
    for number in range(count):
        body = {
            "metadata": {"name": f"template-{number:04}"},
            "template": {"metadata": {"labels": {"pod": "x"}}, "spec": spec},
        }
        await api.made(where, body)
    return where


async def test_chunking_should_return_chunks_of_results_for_list_calls(api: Api) -> None:
    where = await fill(api, 40)
    found: list[str] = []
    query, last = {"limit": "7"}, ""
    while True:
        page = (await api.get(where, query=query)).body
        assert len(page["items"]) <= 7
        assert not last or page["metadata"]["resourceVersion"] == last
        last = page["metadata"]["resourceVersion"]
        found += [one["metadata"]["name"] for one in page["items"]]
        if not page["metadata"].get("continue"):
            break
        assert page["metadata"]["remainingItemCount"] + len(found) == 40
        query = {"limit": "7", "continue": page["metadata"]["continue"]}
    assert found == [f"template-{number:04}" for number in range(40)]
    whole = (await api.get(where)).body
    assert [one["metadata"]["name"] for one in whole["items"]] == found


@pytest.mark.embedded_only
async def test_chunking_should_continue_when_the_version_was_compacted_away(api: Api) -> None:
    """The real server compacts after five minutes; ours does so on request."""
    where = await fill(api, 6)
    first = (await api.get(where, query={"limit": "2"})).body
    relabelled = {"metadata": {"labels": {"a": "b"}}}
    made = (await api.patch(f"{where}/template-0005", relabelled)).body
    assert isinstance(api.transport, InProcessTransport)
    api.transport._app.store.resource("podtemplates").compact(
        int(made["metadata"]["resourceVersion"])
    )
    token = first["metadata"]["continue"]
    gone = await api.get(where, query={"limit": "2", "continue": token})
    assert (gone.status, gone.reason) == (410, "Expired")
    fresh = gone.body["metadata"]["continue"]
    rest = (await api.get(where, query={"continue": fresh})).body
    names = [one["metadata"]["name"] for one in rest["items"]]
    assert names == [f"template-{number:04}" for number in range(2, 6)]
    assert rest["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]


# ── tables, version ──────────────────────────────────────────────────────────────────────
async def test_tables_should_be_refused_where_there_is_no_metadata(api: Api) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    answer = await api.create(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, accept=TABLE
    )
    assert (answer.status, answer.reason) == (406, "NotAcceptable")


async def test_server_version_should_be_found(api: Api) -> None:
    version = (await api.get("/version")).body
    assert version["major"].isdigit()
    assert version["minor"].rstrip("+").isdigit()
    assert version["gitVersion"].startswith(f"v{version['major']}.{version['minor'].rstrip('+')}")
