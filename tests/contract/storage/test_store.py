"""Kubernetes' storage tests (apiserver/pkg/storage/testing/store_tests.go), asked through the API.

Each test is named after the one whose intent it holds. Of the 54 (39 of stores, 15 of watchers):

    test_store.py, test_watcher.py    48 (and one of our own: a watch of Pods by their node)
    test_events_end.py                2, of objects with a life time
    without a meaning here            4: TransformationFailure (encryption at rest), Stats (etcd's
                                      object counts), KeySchema (etcd's keys) and
                                      WatchWithUnsafeDelete (objects that cannot be decrypted)
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from manta.localplane.inprocess import InProcessTransport
from support.contract import Answer, Api, config_map


async def stored(api: Api, name: str, **labels: str) -> dict[str, Any]:
    meta = {"name": name, "labels": labels}
    return await api.made(api.path("secrets"), {"metadata": meta})


def revision(obj: Mapping[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.text
    return [one["metadata"]["name"] for one in answer.body["items"]]


async def listed(api: Api, **query: str) -> Answer:
    return await api.get(api.path("secrets"), query=query)


# ── create and get ───────────────────────────────────────────────────────────────────────
async def test_create(api: Api) -> None:
    made = await stored(api, "foo")
    assert revision(made) > 0
    assert made["metadata"]["uid"]
    assert (await api.get(api.path("secrets", "foo"))).body == made


async def test_create_with_key_exist(api: Api) -> None:
    made = await stored(api, "foo")
    again = await api.create(api.path("secrets"), {"metadata": {"name": "foo"}})
    assert (again.status, again.reason) == (409, "AlreadyExists")
    assert (await api.get(api.path("secrets", "foo"))).body == made


async def test_get(api: Api) -> None:
    made = await stored(api, "foo")
    where = api.path("secrets", "foo")
    changed = (await api.patch(where, {"metadata": {"labels": {"a": "b"}}})).body
    for query in (
        {},
        {"resourceVersion": "0"},
        {"resourceVersion": str(revision(made))},
        {"resourceVersion": str(revision(changed))},
    ):
        answer = await api.get(where, query=query)
        assert answer.status == 200
        if query.get("resourceVersion") != "0":
            assert answer.body == changed
    future = await api.get(where, query={"resourceVersion": str(revision(changed) + 10**9)})
    assert future.status == 504
    assert (await api.get(api.path("secrets", "bar"))).status == 404


# ── delete ───────────────────────────────────────────────────────────────────────────────
async def test_unconditional_delete(api: Api) -> None:
    made = await stored(api, "foo")
    answer = await api.delete(api.path("secrets", "foo"))
    assert answer.status == 200
    assert answer.body["details"]["uid"] == made["metadata"]["uid"]
    assert (await api.delete(api.path("secrets", "foo"))).status == 404


async def test_conditional_delete(api: Api) -> None:
    made = await stored(api, "foo")
    where = api.path("secrets", "foo")
    wrong = await api.delete(where, {"preconditions": {"uid": "another"}})
    assert (wrong.status, wrong.reason) == (409, "Conflict")
    assert (await api.get(where)).status == 200
    right = await api.delete(where, {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert right.status == 200
    assert (await api.get(where)).status == 404


async def test_delete_with_suggestion(api: Api) -> None:
    """What the server may still remember does not stand in the way of deleting what is there."""
    await stored(api, "foo")
    where = api.path("secrets", "foo")
    await api.get(where, query={"resourceVersion": "0"})
    assert (await api.delete(where)).status == 200
    assert (await api.get(where)).status == 404


async def test_delete_with_suggestion_and_conflict(api: Api) -> None:
    made = await stored(api, "foo")
    where = api.path("secrets", "foo")
    changed = (await api.patch(where, {"metadata": {"labels": {"a": "b"}}})).body
    stale = {"preconditions": {"resourceVersion": str(revision(made))}}
    assert (await api.delete(where, stale)).status == 409
    fresh = {"preconditions": {"resourceVersion": str(revision(changed))}}
    assert (await api.delete(where, fresh)).status == 200


async def test_delete_with_conflict(api: Api) -> None:
    """A deletion without conditions wins against writers who change the object meanwhile."""
    await stored(api, "foo")
    where = api.path("secrets", "foo")

    async def change(number: int) -> int:
        return (await api.patch(where, {"metadata": {"labels": {"n": str(number)}}})).status

    results = await asyncio.gather(
        *(change(number) for number in range(5)),
        api.delete(where),
        *(change(number) for number in range(5, 10)),
    )
    [deleted] = (one for one in results if isinstance(one, Answer))
    assert deleted.status == 200
    assert {one for one in results if isinstance(one, int)} <= {200, 404}
    assert (await api.get(where)).status == 404


async def test_delete_with_suggestion_of_deleted_object(api: Api) -> None:
    made = await stored(api, "foo")
    where = api.path("secrets", "foo")
    await api.delete(where)
    for body in (None, {"preconditions": {"uid": made["metadata"]["uid"]}}):
        answer = await api.delete(where, body)
        assert (answer.status, answer.reason) == (404, "NotFound")


async def test_validate_deletion_with_suggestion(api: Api) -> None:
    """Conditions are checked against what is stored now, not against what was read before."""
    made = await stored(api, "foo")
    where = api.path("secrets", "foo")
    condition = {"preconditions": {"resourceVersion": str(revision(made))}}
    changed = (await api.patch(where, {"metadata": {"labels": {"a": "b"}}})).body
    assert (await api.delete(where, condition)).status == 409
    assert (await api.get(where)).body == changed


async def test_validate_deletion_with_only_suggestion_valid(api: Api) -> None:
    made = await stored(api, "foo")
    where = api.path("secrets", "foo")
    await api.delete(where)
    again = await stored(api, "foo")
    condition = {"preconditions": {"uid": made["metadata"]["uid"]}}
    assert (await api.delete(where, condition)).status == 409
    assert (await api.get(where)).body == again


async def test_preconditional_delete_with_suggestion(api: Api) -> None:
    made = await stored(api, "foo")
    where = api.path("secrets", "foo")
    changed = (await api.patch(where, {"metadata": {"labels": {"a": "b"}}})).body
    both = {"uid": made["metadata"]["uid"], "resourceVersion": str(revision(changed))}
    assert (await api.delete(where, {"preconditions": both})).status == 200


async def test_preconditional_delete_with_only_suggestion_pass(api: Api) -> None:
    made = await stored(api, "foo")
    where = api.path("secrets", "foo")
    await api.patch(where, {"metadata": {"labels": {"a": "b"}}})
    both = {"uid": made["metadata"]["uid"], "resourceVersion": str(revision(made))}
    assert (await api.delete(where, {"preconditions": both})).status == 409
    assert (await api.get(where)).status == 200


# ── lists ────────────────────────────────────────────────────────────────────────────────
async def test_list(api: Api) -> None:
    made = [await stored(api, name, n=name[-1]) for name in ("bar-1", "bar-2", "foo-1")]
    whole = await listed(api)
    assert names(whole) == ["bar-1", "bar-2", "foo-1"]
    assert int(whole.version) >= revision(made[-1])
    assert whole.body["kind"] == "SecretList"
    assert "kind" not in whole.body["items"][0]
    assert whole.body["items"][0] == {
        name: value for name, value in made[0].items() if name not in ("kind", "apiVersion")
    }
    assert names(await listed(api, labelSelector="n=1")) == ["bar-1", "foo-1"]
    assert names(await listed(api, fieldSelector="metadata.name=foo-1")) == ["foo-1"]
    assert names(await listed(api, labelSelector="n=3")) == []
    assert (await listed(api, labelSelector="n=3")).body["items"] == []
    for query in ({"resourceVersion": "0"}, {"resourceVersion": str(revision(made[-1]))}):
        answer = await listed(api, **query)
        assert set(names(answer)) <= {"bar-1", "bar-2", "foo-1"}


async def test_consistent_list(api: Api) -> None:
    """A list without a revision shows every write that was acknowledged before it began."""

    async def write_and_look(number: int) -> None:
        made = await stored(api, f"item-{number}")
        answer = await listed(api)
        assert f"item-{number}" in names(answer)
        assert int(answer.version) >= revision(made)

    await asyncio.gather(*(write_and_look(number) for number in range(10)))


async def test_get_list_non_recursive(api: Api) -> None:
    """The list of one name is that object, at every revision that one may ask for."""
    made = await stored(api, "foo")
    await stored(api, "foo-other")
    changed = (
        await api.patch(api.path("secrets", "foo"), {"metadata": {"labels": {"a": "b"}}})
    ).body
    only = {"fieldSelector": "metadata.name=foo"}
    for more in (
        {},
        {"resourceVersion": "0"},
        {"resourceVersion": str(revision(changed)), "resourceVersionMatch": "NotOlderThan"},
        {"resourceVersion": str(revision(changed)), "resourceVersionMatch": "Exact"},
    ):
        assert set(names(await listed(api, **only, **more))) <= {"foo"}
    then = {"resourceVersion": str(revision(made)), "resourceVersionMatch": "Exact"}
    answer = await listed(api, **only, **then)
    assert [revision(one) for one in answer.body["items"]] == [revision(made)]
    assert names(await listed(api, fieldSelector="metadata.name=nobody")) == []


async def test_get_list_recursive_prefix(api: Api) -> None:
    """A namespace whose name begins like another's is still another."""
    other = f"{api.namespace}-more"
    await api.made("/api/v1/namespaces", {"metadata": {"name": other}})
    await stored(api, "here")
    await api.made(f"/api/v1/namespaces/{other}/secrets", {"metadata": {"name": "there"}})
    assert names(await listed(api)) == ["here"]
    assert names(await api.get(f"/api/v1/namespaces/{other}/secrets")) == ["there"]
    everywhere = names(await api.get("/api/v1/secrets"))
    assert {"here", "there"} <= set(everywhere)
    await api.delete(f"/api/v1/namespaces/{other}")


async def paged(api: Api, limit: int, **query: str) -> list[Answer]:
    """Page after page, until there is no more."""
    pages, token = [], ""
    while True:
        more = {"continue": token} if token else {}
        answer = await listed(api, limit=str(limit), **query, **more)
        assert answer.status == 200, answer.text
        pages.append(answer)
        token = answer.body["metadata"].get("continue", "")
        if not token:
            return pages


async def test_list_continuation(api: Api) -> None:
    for index in range(5):
        await stored(api, f"item-{index}")
    first = await listed(api, limit="1")
    assert names(first) == ["item-0"]
    assert first.body["metadata"]["remainingItemCount"] == 4
    token = first.body["metadata"]["continue"]
    await stored(api, "item-00")
    await api.delete(api.path("secrets", "item-3"))
    rest = await listed(api, **{"continue": token})
    assert names(rest) == ["item-1", "item-2", "item-3", "item-4"]
    assert rest.version == first.version
    assert not rest.body["metadata"].get("continue")


async def test_list_pagination_rare_object(api: Api) -> None:
    for index in range(60):
        await stored(api, f"item-{index:02}", rare="yes" if index == 55 else "no")
    pages = await paged(api, 1, labelSelector="rare=yes")
    assert [name for page in pages for name in names(page)] == ["item-55"]


async def test_list_continuation_with_filter(api: Api) -> None:
    for index in range(8):
        await stored(api, f"item-{index}", even=str(index % 2 == 0).lower())
    pages = await paged(api, 2, labelSelector="even=true")
    assert [name for page in pages for name in names(page)] == [
        "item-0",
        "item-2",
        "item-4",
        "item-6",
    ]
    assert all("remainingItemCount" not in page.body["metadata"] for page in pages)


@pytest.mark.embedded_only
async def test_list_inconsistent_continuation(api: Api) -> None:
    """When the snapshot is forgotten, the answer carries a token to go on without it."""
    for index in range(4):
        await stored(api, f"item-{index}")
    first = await listed(api, limit="1")
    await stored(api, "item-9")
    forget(api)
    late = await listed(api, limit="1", **{"continue": first.body["metadata"]["continue"]})
    assert (late.status, late.reason) == (410, "Expired")
    token = late.body["metadata"]["continue"]
    rest = await listed(api, **{"continue": token})
    assert names(rest) == ["item-1", "item-2", "item-3", "item-9"]
    assert int(rest.version) > int(first.version)


def forget(api: Api) -> None:
    """Compact: what lies before now is no longer known."""
    assert isinstance(api.transport, InProcessTransport)
    store = api.transport._app.store
    store.resource("secrets").compact(store.revision)


async def test_list_resource_version_match(api: Api) -> None:
    first = await stored(api, "a")
    second = await stored(api, "b")
    await stored(api, "c")
    exact = {"resourceVersionMatch": "Exact"}
    for made, expected in ((first, ["a"]), (second, ["a", "b"])):
        answer = await listed(api, resourceVersion=str(revision(made)), **exact)
        assert names(answer) == expected
        assert answer.version == str(revision(made))
    at_least = {"resourceVersionMatch": "NotOlderThan", "resourceVersion": str(revision(second))}
    assert names(await listed(api, **at_least)) == ["a", "b", "c"]
    unset = {"resourceVersion": str(revision(first)), "limit": "5"}
    assert names(await listed(api, **unset)) == ["a"]


async def test_list_paging(api: Api) -> None:
    expected = []
    for index in range(23):
        await stored(api, f"item-{index:02}")
        expected.append(f"item-{index:02}")
    for limit in (1, 5, 22, 23, 100):
        pages = await paged(api, limit)
        assert [name for page in pages for name in names(page)] == expected
        assert len({page.version for page in pages}) == 1
        assert all(len(names(page)) <= limit for page in pages)
        left = [page.body["metadata"].get("remainingItemCount", 0) for page in pages]
        assert left == [max(0, 23 - limit * (number + 1)) for number in range(len(pages))]


async def test_namespace_scoped_list(api: Api) -> None:
    other = f"{api.namespace}-two"
    await api.made("/api/v1/namespaces", {"metadata": {"name": other}})
    for name in ("a", "b"):
        await stored(api, name, here=api.namespace)
        body = {"metadata": {"name": name, "labels": {"here": api.namespace}}}
        await api.made(f"/api/v1/namespaces/{other}/secrets", body)
    assert names(await listed(api)) == ["a", "b"]
    chosen = {"labelSelector": f"here={api.namespace}"}
    everywhere = await api.get("/api/v1/secrets", query=chosen)
    places = [
        (one["metadata"]["namespace"], one["metadata"]["name"]) for one in everywhere.body["items"]
    ]
    assert places == sorted(places, key="/".join)
    assert len(places) == 4
    one = {**chosen, "fieldSelector": f"metadata.namespace={other},metadata.name=b"}
    assert len((await api.get("/api/v1/secrets", query=one)).body["items"]) == 1
    page = await api.get("/api/v1/secrets", query={**chosen, "limit": "3"})
    token = page.body["metadata"]["continue"]
    last = await api.get("/api/v1/secrets", query={**chosen, "limit": "3", "continue": token})
    assert names(page) + names(last) == ["a", "b", "a", "b"]
    await api.delete(f"/api/v1/namespaces/{other}")


# ── updates ──────────────────────────────────────────────────────────────────────────────
async def test_guaranteed_update(api: Api) -> None:
    await api.made(api.path("configmaps"), config_map("foo"))
    where = api.path("configmaps", "foo")
    assert (await api.replace(api.path("configmaps", "no"), config_map("no"))).status == 404
    assert (await api.patch(api.path("configmaps", "no"), {"data": {"a": "b"}})).status == 404
    changed = (await api.patch(where, {"data": {"a": "b"}})).body
    same = (await api.patch(where, {"data": {"a": "b"}})).body
    assert same == changed
    wrong = config_map("foo", uid="11111111-1111-1111-1111-111111111111")
    assert (await api.replace(where, wrong)).status == 409
    assert (await api.get(where)).body == changed


async def test_guaranteed_update_checks_stored_data(api: Api) -> None:
    """An update that changes nothing is no write: revision, times and owners stay."""
    made = await api.made(api.path("configmaps"), config_map("foo"))
    where = api.path("configmaps", "foo")
    start = (await api.get(api.path("configmaps"))).version
    assert (await api.replace(where, made)).body == made
    assert (await api.replace(where, config_map("foo"))).body == made
    later = await api.made(api.path("configmaps"), config_map("bar"))
    async with api.watch(api.path("configmaps"), {"resourceVersion": start}) as events:
        assert await events.take(1) == [("ADDED", "bar")]
    assert revision(later) > revision(made)


async def test_guaranteed_update_with_conflict(api: Api) -> None:
    """Concurrent patches of different fields are all applied, one after the other."""
    await api.made(api.path("configmaps"), config_map("foo"))
    where = api.path("configmaps", "foo")
    patches = [api.patch(where, {"data": {f"k{n}": str(n)}}) for n in range(20)]
    answers = await asyncio.gather(*patches)
    assert {answer.status for answer in answers} == {200}
    assert len({answer.version for answer in answers}) == 20
    data = (await api.get(where)).body["data"]
    assert data == {"k": "1", **{f"k{n}": str(n) for n in range(20)}}


async def test_guaranteed_update_with_suggestion_and_conflict(api: Api) -> None:
    """Of many concurrent updates of one revision, one succeeds; the others get a conflict."""
    made = await api.made(api.path("configmaps"), config_map("foo"))
    where = api.path("configmaps", "foo")
    bodies = [made | {"data": {"k": str(n)}} for n in range(2, 12)]
    answers = await asyncio.gather(*(api.replace(where, body) for body in bodies))
    codes = sorted(answer.status for answer in answers)
    assert codes == [200] + [409] * 9
    [winner] = [answer.body for answer in answers if answer.status == 200]
    assert (await api.get(where)).body == winner


@pytest.mark.embedded_only
async def test_compact_revision(api: Api) -> None:
    made = await stored(api, "a")
    await stored(api, "b")
    forget(api)
    exact = {"resourceVersion": str(revision(made)), "resourceVersionMatch": "Exact"}
    answer = await listed(api, **exact)
    assert (answer.status, answer.reason) == (410, "Expired")
    assert names(await listed(api)) == ["a", "b"]
