"""The client's verbs against the embedded API server: the promises of both, in one place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key, Object
from manta.api.resources import CONFIG_MAPS, NAMESPACES, PODS, Resource
from manta.kube import errors
from manta.kube.client import Client
from manta.kube.config import User, load
from manta.kube.connect import connect
from manta.kube.retry import RetryPolicy
from manta.kube.watch_stream import WatchEvent
from manta.localplane.plane import Plane, PlaneOptions
from support.plane import memory_plane

KEY = Key("default", "a")
WIDGETS = Resource("t.example.com", "v1", "widgets", "Widget")


@pytest.fixture(params=["in process", "over TLS"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    """The same promises hold without a network and across a real one."""
    if request.param == "in process":
        async with memory_plane() as plane:
            yield plane.client
    else:
        options = PlaneOptions(tmp_path / "plane", memory=True, controllers=False)
        async with Plane(options) as served, await connect(load(served.kubeconfig)) as client:
            yield client


def config_map(name: str = "a", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "data": {"k": "v"}}


async def first(events: AsyncIterator[WatchEvent[Any]], count: int) -> list[tuple[str, str]]:
    """The types and names of the first events that are no bookmarks."""
    got: list[tuple[str, str]] = []
    async with asyncio.timeout(10):
        async for event in events:
            if event.type != "BOOKMARK":
                got.append((event.type, event.object.metadata.name))
            if len(got) == count:
                break
    return got


# ── reading ──────────────────────────────────────────────────────────────────────────────────
async def test_what_was_created_can_be_read(client: Client) -> None:
    written = await client.create(CONFIG_MAPS, "default", config_map())
    read = await client.get(CONFIG_MAPS, KEY)
    assert read["metadata"]["uid"] == written.metadata.uid
    assert read["data"] == {"k": "v"}


async def test_a_missing_object_differs_from_a_missing_type(client: Client) -> None:
    with pytest.raises(errors.NotFound) as object_missing:
        await client.get(CONFIG_MAPS, KEY)
    with pytest.raises(errors.NotFound) as type_missing:
        await client.list(WIDGETS)
    assert not object_missing.value.of_type
    assert type_missing.value.of_type


async def test_pages_add_up_to_the_whole_list(client: Client) -> None:
    for number in range(7):
        await client.create(CONFIG_MAPS, "default", config_map(f"m{number}", x="y"))
    whole = await client.list(CONFIG_MAPS, "default", labels="x=y", page_size=0, into=Object)
    paged = await client.list(CONFIG_MAPS, "default", labels="x=y", page_size=3, into=Object)
    assert [each.metadata.name for each in paged.items] == [f"m{n}" for n in range(7)]
    assert paged == whole


async def test_selectors_select(client: Client) -> None:
    await client.create(CONFIG_MAPS, "default", config_map("one", app="x"))
    await client.create(CONFIG_MAPS, "default", config_map("two", app="y"))
    by_label = await client.list(CONFIG_MAPS, labels="app in (x,z)", into=Object)
    by_field = await client.list(CONFIG_MAPS, fields="metadata.name=two", into=Object)
    assert [each.metadata.name for each in by_label.items] == ["one"]
    assert [each.metadata.name for each in by_field.items] == ["two"]


# ── watching ─────────────────────────────────────────────────────────────────────────────────
async def test_a_watch_takes_over_where_a_list_ended(client: Client) -> None:
    await client.create(CONFIG_MAPS, "default", config_map("before"))
    listing = await client.list(CONFIG_MAPS, "default")
    await client.create(CONFIG_MAPS, "default", config_map())
    await client.patch(CONFIG_MAPS, KEY, {"data": {"k": "w"}})
    await client.delete(CONFIG_MAPS, KEY)
    watch = client.watch(
        CONFIG_MAPS, "default", resource_version=listing.resource_version, into=Object
    )
    async with aclosing(watch):
        assert await first(watch, 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_streaming_list_ends_with_its_mark(client: Client) -> None:
    await client.create(CONFIG_MAPS, "default", config_map("one"))
    await client.create(CONFIG_MAPS, "default", config_map("two"))
    watch = client.watch(CONFIG_MAPS, "default", initial_events=True, into=Object)
    names = set()
    async with aclosing(watch), asyncio.timeout(10):
        async for event in watch:
            if event.initial_end:
                break
            names.add(event.object.metadata.name)
    assert names == {"one", "two"}
    assert event.resource_version


async def test_a_watch_ends_when_the_server_says_so(client: Client) -> None:
    async with asyncio.timeout(10):
        events = [e async for e in client.watch(CONFIG_MAPS, "default", timeout_seconds=1)]
    assert all(event.type in ("ADDED", "BOOKMARK") for event in events)


async def test_a_silent_watch_is_given_up(client: Client) -> None:
    with pytest.raises(errors.Unreachable, match="no data"):
        [e async for e in client.watch(PODS, "default", read_timeout=0.05)]


# ── writing ──────────────────────────────────────────────────────────────────────────────────
async def test_creating_twice_is_already_exists(client: Client) -> None:
    await client.create(CONFIG_MAPS, "default", config_map())
    with pytest.raises(errors.AlreadyExists):
        await client.create(CONFIG_MAPS, "default", config_map())


async def test_a_dry_run_changes_nothing(client: Client) -> None:
    await client.create(CONFIG_MAPS, "default", config_map(), dry_run=True)
    assert (await client.list(CONFIG_MAPS, "default")).items == []


async def test_replacing_an_old_version_is_a_conflict(client: Client) -> None:
    await client.create(CONFIG_MAPS, "default", config_map())
    old = await client.get(CONFIG_MAPS, KEY)
    await client.patch(CONFIG_MAPS, KEY, {"data": {"k": "newer"}})
    with pytest.raises(errors.Conflict):
        await client.replace(CONFIG_MAPS, KEY, old)
    assert (await client.get(CONFIG_MAPS, KEY))["data"] == {"k": "newer"}


async def test_every_kind_of_patch_works(client: Client) -> None:
    await client.create(CONFIG_MAPS, "default", config_map())
    await client.patch(CONFIG_MAPS, KEY, {"data": {"merge": "1"}})
    replaced = [{"op": "add", "path": "/data/json", "value": "1"}]
    await client.patch(CONFIG_MAPS, KEY, replaced, kind="json")
    await client.patch(CONFIG_MAPS, KEY, {"data": {"strategic": "1"}}, kind="strategic")
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"apply": "1"}}
    await client.patch(CONFIG_MAPS, KEY, applied, kind="apply", field_manager="test")
    data = (await client.get(CONFIG_MAPS, KEY))["data"]
    assert set(data) == {"k", "merge", "json", "strategic", "apply"}


async def test_a_patch_for_one_version_meets_another(client: Client) -> None:
    written = await client.create(CONFIG_MAPS, "default", config_map())
    await client.patch(CONFIG_MAPS, KEY, {"data": {"k": "newer"}})
    stale = {"metadata": {"resourceVersion": written.metadata.resource_version}}
    with pytest.raises(errors.Conflict):
        await client.patch(CONFIG_MAPS, KEY, stale | {"data": {"k": "stale"}})


async def test_an_invalid_object_names_its_fields(client: Client) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await client.create(CONFIG_MAPS, "default", config_map("Not_A_Name"))
    assert any("metadata.name" in cause["field"] for cause in caught.value.causes)


async def test_status_is_written_apart(client: Client) -> None:
    pod = {
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await client.create(PODS, "default", pod)
    await client.patch(PODS, KEY, {"status": {"phase": "Running"}}, subresource="status")
    await client.patch(PODS, KEY, {"status": {"phase": "Failed"}})
    assert (await client.get(PODS, KEY))["status"]["phase"] == "Running"


# ── deleting ─────────────────────────────────────────────────────────────────────────────────
async def test_deleting_says_whether_there_was_anything(client: Client) -> None:
    await client.create(CONFIG_MAPS, "default", config_map())
    assert await client.delete(CONFIG_MAPS, KEY) is True
    assert await client.delete(CONFIG_MAPS, KEY) is False


async def test_a_recreated_object_survives_a_delete_of_the_old(client: Client) -> None:
    old = await client.create(CONFIG_MAPS, "default", config_map())
    await client.delete(CONFIG_MAPS, KEY)
    await client.create(CONFIG_MAPS, "default", config_map())
    with pytest.raises(errors.Conflict):
        await client.delete(CONFIG_MAPS, KEY, uid=old.metadata.uid)
    assert await client.get(CONFIG_MAPS, KEY)


async def test_a_collection_is_deleted_by_selector(client: Client) -> None:
    await client.create(CONFIG_MAPS, "default", config_map("one", app="x"))
    await client.create(CONFIG_MAPS, "default", config_map("two", app="y"))
    await client.delete_collection(CONFIG_MAPS, "default", labels="app=x")
    left = await client.list(CONFIG_MAPS, "default", into=Object)
    assert [each.metadata.name for each in left.items] == ["two"]


async def test_a_namespace_can_be_asked_for_by_its_bare_name(client: Client) -> None:
    found = await client.get(NAMESPACES, Key("", "default"), into=Object)
    assert found.metadata.name == "default"


# ── a server that is not always there ────────────────────────────────────────────────────────
async def test_a_token_that_nobody_knows_is_named(tmp_path: Path) -> None:
    options = PlaneOptions(tmp_path, memory=True, controllers=False)
    async with Plane(options) as served:
        known = load(served.kubeconfig)
        stranger = replace(known, user=User("user 'me' in /k", token="unknown"))
        async with await connect(stranger) as client:
            with pytest.raises(
                errors.Unauthorized, match="the token of user 'me' in /k was refused"
            ):
                await client.list(CONFIG_MAPS)


async def test_a_server_that_comes_back_is_found_again(tmp_path: Path) -> None:
    options = PlaneOptions(tmp_path, controllers=False)
    async with Plane(options) as served:
        client = await connect(load(served.kubeconfig), retry=RetryPolicy(attempts=1))
        written = await client.create(CONFIG_MAPS, "default", config_map())
    with pytest.raises(errors.Unreachable):
        await client.create(CONFIG_MAPS, "default", config_map("b"))
    async with Plane(options):
        async with asyncio.timeout(10):
            found = await patiently(client)
        assert found["metadata"]["resourceVersion"] == written.metadata.resource_version
        await client.close()


async def patiently(client: Client) -> dict[str, Any]:
    """A kept connection may be dead: the first answer after a restart can be a loss."""
    while True:
        try:
            return await client.get(CONFIG_MAPS, KEY)
        except errors.Unreachable:
            await asyncio.sleep(0.05)
