"""The garbage collector on the embedded server: the recorded cases of a real one, and more."""

from __future__ import annotations

import asyncio
from typing import Any

from manta.api.meta import Key
from manta.api.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    JOBS,
    NAMESPACES,
    PODS,
    Resource,
)
from manta.kube.client import Propagation
from support.fakenodes import FakeCluster, a_job_manifest, fake_cluster
from support.virtual import virtually

WIDGETS = Resource("t.example.com", "v1", "widgets", "Widget")


async def put(
    cluster: FakeCluster,
    name: str,
    *owners: tuple[str, str],
    namespace: str = "default",
    block: bool = True,
    finalizers: tuple[str, ...] = (),
) -> tuple[str, str]:
    """A ConfigMap with these owners; what an owner reference to it needs."""
    refs = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner,
            "uid": uid,
            "blockOwnerDeletion": block,
        }
        for owner, uid in owners
    ]
    meta = {"name": name, "ownerReferences": refs, "finalizers": list(finalizers)}
    written = await cluster.client.create(CONFIG_MAPS, namespace, {"metadata": meta})
    return name, written.metadata.uid


async def delete(cluster: FakeCluster, name: str, how: Propagation) -> None:
    await cluster.client.delete(CONFIG_MAPS, Key("default", name), propagation=how)


async def owners_of(cluster: FakeCluster, name: str) -> list[str]:
    held = await cluster.get(CONFIG_MAPS, name)
    assert held is not None, f"{name} is gone"
    return [one["name"] for one in held["metadata"].get("ownerReferences") or ()]


async def release(cluster: FakeCluster, name: str) -> None:
    patch: dict[str, Any] = {"metadata": {"finalizers": None}}
    await cluster.client.patch(CONFIG_MAPS, Key("default", name), patch)


@virtually
async def test_in_the_background_dependents_follow_their_owner() -> None:
    async with fake_cluster() as cluster:
        owner = await put(cluster, "owner")
        child = await put(cluster, "child", owner)
        await put(cluster, "grandchild", child)
        await delete(cluster, "owner", "Background")
        await cluster.until_gone(CONFIG_MAPS, "grandchild")
        assert await cluster.names(CONFIG_MAPS) == ["kube-root-ca.crt"]


@virtually
async def test_in_the_foreground_the_owner_waits_for_those_that_block_it() -> None:
    async with fake_cluster() as cluster:
        owner = await put(cluster, "owner")
        await put(cluster, "child", owner, finalizers=("example.com/hold",))
        await delete(cluster, "owner", "Foreground")
        await asyncio.sleep(5)
        held = await cluster.get(CONFIG_MAPS, "owner")
        assert held is not None
        assert held["metadata"]["finalizers"] == ["foregroundDeletion"]
        child = await cluster.get(CONFIG_MAPS, "child")
        assert child is not None
        assert child["metadata"]["deletionTimestamp"]
        await release(cluster, "child")
        await cluster.until_gone(CONFIG_MAPS, "owner")


@virtually
async def test_in_the_foreground_children_that_do_not_block_are_not_waited_for() -> None:
    async with fake_cluster() as cluster:
        owner = await put(cluster, "owner")
        await put(cluster, "child", owner, block=False, finalizers=("example.com/hold",))
        await delete(cluster, "owner", "Foreground")
        await cluster.until_gone(CONFIG_MAPS, "owner")
        assert await cluster.get(CONFIG_MAPS, "child") is not None


@virtually
async def test_a_ring_of_owners_can_be_deleted_in_the_foreground() -> None:
    async with fake_cluster() as cluster:
        first = await put(cluster, "first")
        second = await put(cluster, "second", first)
        third = await put(cluster, "third", second)
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": third[0], "uid": third[1]}
        patch = {"metadata": {"ownerReferences": [{**ref, "blockOwnerDeletion": True}]}}
        await cluster.client.patch(CONFIG_MAPS, Key("default", "first"), patch)
        await delete(cluster, "first", "Foreground")
        await cluster.until_gone(CONFIG_MAPS, "first")
        await cluster.until_gone(CONFIG_MAPS, "third")


@virtually
async def test_orphans_stay_and_forget_their_owner() -> None:
    async with fake_cluster() as cluster:
        owner = await put(cluster, "owner")
        await put(cluster, "child", owner)
        await delete(cluster, "owner", "Orphan")
        await cluster.until_gone(CONFIG_MAPS, "owner")
        await asyncio.sleep(30)
        assert await owners_of(cluster, "child") == []


@virtually
async def test_of_two_owners_the_living_one_keeps_the_child() -> None:
    async with fake_cluster() as cluster:
        one, two = await put(cluster, "one"), await put(cluster, "two")
        await put(cluster, "child", one, two)
        await delete(cluster, "one", "Background")
        await asyncio.sleep(5)
        assert await owners_of(cluster, "child") == ["two"]


@virtually
async def test_a_child_of_an_owner_that_never_was_is_deleted() -> None:
    async with fake_cluster() as cluster:
        await put(cluster, "child", ("ghost", "00000000-0000-0000-0000-000000000000"))
        await cluster.until_gone(CONFIG_MAPS, "child")


@virtually
async def test_a_child_of_an_owner_in_another_namespace_is_deleted_and_reported() -> None:
    async with fake_cluster() as cluster:
        await cluster.client.create(NAMESPACES, "", {"metadata": {"name": "other"}})
        owner = await put(cluster, "owner")
        await put(cluster, "child", owner, namespace="other")
        await cluster.until_gone(CONFIG_MAPS, "child", "other")
        await asyncio.sleep(1)
        [note] = await cluster.events("OwnerRefInvalidNamespace", "other")
        assert note == (
            f"ownerRef [v1/ConfigMap, namespace: other, name: owner, uid: {owner[1]}] "
            'does not exist in namespace "other"'
        )


def a_definition() -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.t.example.com"},
        "spec": {
            "group": "t.example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [version],
        },
    }


@virtually
async def test_a_kind_that_is_defined_later_owns_at_once() -> None:
    async with fake_cluster() as cluster:
        await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", a_definition())
        await cluster.until(
            lambda: cluster.is_true(
                CUSTOM_RESOURCE_DEFINITIONS, "widgets.t.example.com", "Established"
            )
        )
        body = {"apiVersion": "t.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        widget = await cluster.client.create(WIDGETS, "default", body)
        ref = {
            "apiVersion": "t.example.com/v1",
            "kind": "Widget",
            "name": "w",
            "uid": widget.metadata.uid,
        }
        child = {"metadata": {"name": "child", "ownerReferences": [ref]}}
        await cluster.client.create(CONFIG_MAPS, "default", child)
        await asyncio.sleep(5)
        assert await owners_of(cluster, "child") == ["w"]
        await cluster.client.delete(WIDGETS, Key("default", "w"))
        await cluster.until_gone(CONFIG_MAPS, "child")


@virtually
async def test_a_job_that_is_orphaned_leaves_its_pods_without_our_finalizer() -> None:
    async with fake_cluster() as cluster:
        await cluster.client.create(JOBS, "default", a_job_manifest("j", "run"))
        await cluster.until(lambda: cluster.pods("job-name=j"))
        await asyncio.sleep(2)
        await cluster.client.delete(JOBS, Key("default", "j"), propagation="Orphan")
        await cluster.until_gone(JOBS, "j")
        await asyncio.sleep(5)
        [pod] = await cluster.pods("job-name=j")
        assert not pod["metadata"].get("ownerReferences")
        assert not pod["metadata"].get("finalizers")


@virtually
async def test_a_job_that_is_deleted_takes_its_pods_with_it() -> None:
    async with fake_cluster() as cluster:
        await cluster.client.create(JOBS, "default", a_job_manifest("j", "run"))
        await cluster.until(lambda: cluster.pods("job-name=j"))
        await cluster.client.delete(JOBS, Key("default", "j"), propagation="Foreground")
        await cluster.until_gone(JOBS, "j")
        assert await cluster.all(PODS) == []


@virtually
async def test_a_new_version_of_a_kind_does_not_orphan_its_dependents() -> None:
    async with fake_cluster() as cluster:
        name = Key("", "widgets.t.example.com")
        await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", a_definition())
        await asyncio.sleep(2)
        body = {"apiVersion": "t.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        widget = await cluster.client.create(WIDGETS, "default", body)
        ref = {
            "apiVersion": "t.example.com/v1",
            "kind": "Widget",
            "name": "w",
            "uid": widget.metadata.uid,
        }
        child = {"metadata": {"name": "child", "ownerReferences": [ref]}}
        await cluster.client.create(CONFIG_MAPS, "default", child)
        await asyncio.sleep(2)
        [v1] = a_definition()["spec"]["versions"]
        for served in ([{**v1, "name": "v2", "storage": False}, v1], [{**v1, "name": "v2"}]):
            # First a second version, then only that one.
            await cluster.client.patch(
                CUSTOM_RESOURCE_DEFINITIONS, name, {"spec": {"versions": served}}
            )
            await asyncio.sleep(10)
            assert await owners_of(cluster, "child") == ["w"]
        await cluster.client.delete(
            Resource("t.example.com", "v2", "widgets", "Widget"), Key("default", "w")
        )
        await cluster.until_gone(CONFIG_MAPS, "child")


@virtually
async def test_deleting_a_definition_takes_the_objects_and_their_dependents() -> None:
    async with fake_cluster() as cluster:
        await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", a_definition())
        await asyncio.sleep(2)
        body = {"apiVersion": "t.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        widget = await cluster.client.create(WIDGETS, "default", body)
        ref = {
            "apiVersion": "t.example.com/v1",
            "kind": "Widget",
            "name": "w",
            "uid": widget.metadata.uid,
        }
        child = {"metadata": {"name": "child", "ownerReferences": [ref]}}
        await cluster.client.create(CONFIG_MAPS, "default", child)
        await asyncio.sleep(2)
        await cluster.client.delete(CUSTOM_RESOURCE_DEFINITIONS, Key("", "widgets.t.example.com"))
        await cluster.until_gone(CONFIG_MAPS, "child")
