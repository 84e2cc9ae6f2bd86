"""Status writing."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest

from manta.api.meta import Key, Object, ObjectMeta, View
from manta.api.ray.cluster import RayClusterStatus
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import PODS
from manta.kube.client import Client
from manta.kube.errors import Conflict, NotFound
from manta.reconcile.status_writer import StatusWriter
from manta.runtime.freshness import Freshness, Owner
from support.raycluster import ray_cluster
from support.raycrds import ray_crds
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
async def test_the_status_is_replaced_and_the_rest_of_the_object_stays() -> None:
    async with virtual_plane(ray_crds()) as plane:
        key = Key("default", "c")
        body = ray_cluster("c")
        body["metadata"]["labels"] = {"team": "a"}
        await plane.client.create(RAY_CLUSTERS, "default", body, field_manager="user")
        before = RayClusterStatus(state="ready", reason="old")
        writer = StatusWriter(plane.client, Freshness(Random(1)))
        old = await plane.client.get(RAY_CLUSTERS, key)
        meta = (await plane.client.get(RAY_CLUSTERS, key, into=Object)).metadata
        assert await writer.write(OWNER, RAY_CLUSTERS, meta, RayClusterStatus(), before)
        meta = (await plane.client.get(RAY_CLUSTERS, key, into=Object)).metadata
        after = RayClusterStatus(state="ready", ready_worker_replicas=2)
        assert await writer.write(OWNER, RAY_CLUSTERS, meta, before, after)
        new = await plane.client.get(RAY_CLUSTERS, key)
        assert new["status"] == {"state": "ready", "readyWorkerReplicas": 2}
        assert new["spec"] == old["spec"]
        assert new["metadata"]["labels"] == {"team": "a"}
        assert new["metadata"]["generation"] == old["metadata"]["generation"]
        assert old["metadata"]["managedFields"][0] in new["metadata"]["managedFields"]


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


@virtually
async def test_a_type_without_a_status_is_an_error_and_not_a_deleted_object() -> None:
    """A CRD that lacks the subresource, or a proxy's 404: the status would be lost in silence."""
    async with virtual_plane(_without_status(ray_crds())) as plane:
        await plane.client.create(RAY_CLUSTERS, "default", ray_cluster("c"))
        key, new = Key("default", "c"), RayClusterStatus(state="ready")
        meta = (await plane.client.get(RAY_CLUSTERS, key, into=Object)).metadata
        writer = StatusWriter(plane.client, Freshness(Random(1)))
        with pytest.raises(NotFound):
            await writer.write(OWNER, RAY_CLUSTERS, meta, RayClusterStatus(), new)


def _without_status(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = deepcopy(documents)
    for version in (one for document in found for one in document["spec"]["versions"]):
        version.pop("subresources", None)
    return found
