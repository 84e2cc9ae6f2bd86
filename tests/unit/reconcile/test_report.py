"""Status writing."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.api.meta import Key, Object, ObjectMeta, View
from manta.api.resources import PODS
from manta.kube.client import Client
from manta.kube.errors import Conflict
from manta.reconcile.report import StatusWriter, merge_difference
from manta.runtime.freshness import Freshness, Owner
from support.virtual import faulty, virtual_plane, virtually

OWNER = Owner("toy", Key("default", "p"))
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


class Status(View, frozen=True, kw_only=True):
    phase: str = ""
    message: str = ""
    reason: str = ""


async def seen(client: Client) -> ObjectMeta:
    return (await client.get(PODS, Key("default", "p"), into=Object)).metadata


@virtually
async def test_an_equal_status_is_not_written() -> None:
    async with virtual_plane() as plane:
        await plane.client.create(PODS, "default", POD)
        faults = faulty(plane)
        writer = StatusWriter(Client(faults), Freshness(Random(1)))
        meta = await seen(plane.client)
        assert not await writer.write(OWNER, PODS, meta, Status(phase="a"), Status(phase="a"))
        assert faults.log == []


@virtually
async def test_only_what_differs_is_written_and_the_rest_stays() -> None:
    async with virtual_plane() as plane:
        await plane.client.create(PODS, "default", POD)
        key = Key("default", "p")
        old = {"message": "old", "podIP": "10.0.0.1", "phase": "Running"}
        await plane.client.patch(PODS, key, {"status": old}, subresource="status")
        writer = StatusWriter(plane.client, Freshness(Random(1)))
        meta = await seen(plane.client)
        before = Status(phase="Running", message="old")
        assert await writer.write(OWNER, PODS, meta, before, Status(phase="Running", reason="r"))
        status = (await plane.client.get(PODS, key))["status"]
        assert status["podIP"] == "10.0.0.1"
        assert status["reason"] == "r"
        assert "message" not in status


@virtually
async def test_a_status_made_from_an_old_look_is_refused() -> None:
    async with virtual_plane() as plane:
        await plane.client.create(PODS, "default", POD)
        writer = StatusWriter(plane.client, Freshness(Random(1)))
        meta = await seen(plane.client)
        key = Key("default", "p")
        await plane.client.patch(PODS, key, {"metadata": {"labels": {"x": "y"}}})
        with pytest.raises(Conflict):
            await writer.write(OWNER, PODS, meta, Status(), Status(message="m"))


@virtually
async def test_an_object_that_is_gone_needs_no_status() -> None:
    async with virtual_plane() as plane:
        await plane.client.create(PODS, "default", POD)
        writer = StatusWriter(plane.client, Freshness(Random(1)))
        meta = await seen(plane.client)
        await plane.client.delete(PODS, Key("default", "p"), grace_seconds=0)
        assert not await writer.write(OWNER, PODS, meta, Status(), Status(message="m"))


JSON = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)


@given(OBJECTS, OBJECTS)
def test_the_difference_applied_to_the_old_gives_the_new(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert _merge(old, merge_difference(old, new)) == new


@given(OBJECTS)
def test_equal_objects_differ_in_nothing(one: dict[str, Any]) -> None:
    assert merge_difference(one, one) == {}


def _merge(target: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386), straight from its text."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merge(result.get(name), value)
    return result
