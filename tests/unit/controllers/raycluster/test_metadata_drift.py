"""Labels of ours that somebody changed on what surrounds the Pods come back, where it is ours."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    ROLE_BINDINGS,
    ROLES,
    Resource,
)
from manta.controllers.raycluster.events import Cause
from manta.reconcile.actions import Delete
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import ray_cluster
from support.raycluster_world import World, decode

EMBEDDED = Settings(gates=FeatureGates(gcs_fault_tolerance_embedded_storage=True))
CREATED_BY = "app.kubernetes.io/created-by"
CLUSTER = "ray.io/cluster"

KEPT = [
    (ROLES, "demo", CREATED_BY, Cause.AUTOSCALER_ROLE_DRIFT),
    (ROLES, "demo", CLUSTER, Cause.AUTOSCALER_ROLE_DRIFT),
    (ROLE_BINDINGS, "demo", CREATED_BY, Cause.AUTOSCALER_BINDING_DRIFT),
    (PERSISTENT_VOLUME_CLAIMS, "demo-gcs-pvc", CLUSTER, Cause.GCS_CLAIM_OWNER),
]
each_kind = pytest.mark.parametrize(("resource", "name", "label", "cause"), KEPT)


def settled(**storage: Any) -> World:
    options = {"backend": "rocksdb", "storage": storage}
    manifest = ray_cluster(enableInTreeAutoscaling=True, gcsFaultToleranceOptions=options)
    world = World(decode(manifest), EMBEDDED)
    world.settle()
    return world


def planned(world: World) -> list[Any]:
    return [one.cause for one in world.plan().actions]


@each_kind
@pytest.mark.parametrize("value", [None, "else"])
def test_a_label_of_ours_comes_back_and_a_foreign_one_stays(
    resource: Resource, name: str, label: str, cause: Cause, value: str | None
) -> None:
    world = settled()
    labels = world.objects[resource, name]["metadata"]["labels"]
    ours = dict(labels)
    labels |= {"foreign": "yes"}
    labels.pop(label)
    if value is not None:
        labels[label] = value
    assert planned(world) == [cause]
    world.round()
    assert world.objects[resource, name]["metadata"]["labels"] == ours | {"foreign": "yes"}
    assert planned(world) == []


@each_kind
def test_what_nobody_controls_keeps_its_labels(
    resource: Resource, name: str, label: str, cause: Cause
) -> None:
    world = settled(deletionPolicy="Retain")
    meta = world.objects[resource, name]["metadata"]
    meta["labels"] = {}
    meta.pop("ownerReferences", None)
    assert planned(world) == []


def test_a_role_that_lost_its_rules_and_a_label_is_mended_at_once() -> None:
    world = settled()
    role = world.objects[ROLES, "demo"]
    role["rules"], role["metadata"]["labels"] = [], {CLUSTER: "demo"}
    assert planned(world) == [Cause.AUTOSCALER_ROLE_DRIFT]
    world.round()
    assert planned(world) == []


# ── a binding to another Role ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("change", [{"name": "admin"}, {"kind": "ClusterRole"}])
def test_a_binding_of_ours_to_another_role_is_made_anew(change: dict[str, str]) -> None:
    world = settled()
    ours = dict(world.objects[ROLE_BINDINGS, "demo"]["roleRef"])
    world.objects[ROLE_BINDINGS, "demo"]["roleRef"].update(change)
    [delete] = world.plan().actions
    assert isinstance(delete, Delete)
    world.settle()
    assert world.objects[ROLE_BINDINGS, "demo"]["roleRef"] == ours


@pytest.mark.parametrize("change", [{"name": "admin"}, {"kind": "ClusterRole"}])
def test_a_binding_that_nobody_controls_is_never_deleted(change: dict[str, str]) -> None:
    world = settled()
    binding = world.objects[ROLE_BINDINGS, "demo"]
    binding["roleRef"].update(change)
    del binding["metadata"]["ownerReferences"]
    assert planned(world) == []


def test_a_binding_on_its_way_out_is_not_deleted_again() -> None:
    world = settled()
    binding = world.objects[ROLE_BINDINGS, "demo"]
    binding["roleRef"]["name"] = "admin"
    binding["metadata"]["deletionTimestamp"] = "2026-11-15T08:00:00Z"
    assert planned(world) == []
