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
from support.raycluster_scenario import Scenario, decode

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


def settled(**storage: Any) -> Scenario:
    options = {"backend": "rocksdb", "storage": storage}
    manifest = ray_cluster(enableInTreeAutoscaling=True, gcsFaultToleranceOptions=options)
    scenario = Scenario(decode(manifest), EMBEDDED)
    scenario.settle()
    return scenario


def planned(scenario: Scenario) -> list[Any]:
    return [one.cause for one in scenario.plan().actions]


@each_kind
@pytest.mark.parametrize("value", [None, "else"])
def test_a_label_of_ours_comes_back_and_a_foreign_one_stays(
    resource: Resource, name: str, label: str, cause: Cause, value: str | None
) -> None:
    scenario = settled()
    labels = scenario.objects[resource, name]["metadata"]["labels"]
    ours = dict(labels)
    labels |= {"foreign": "yes"}
    labels.pop(label)
    if value is not None:
        labels[label] = value
    assert planned(scenario) == [cause]
    scenario.reconcile()
    assert scenario.objects[resource, name]["metadata"]["labels"] == ours | {"foreign": "yes"}
    assert planned(scenario) == []


@each_kind
def test_what_nobody_controls_keeps_its_labels(
    resource: Resource, name: str, label: str, cause: Cause
) -> None:
    scenario = settled(deletionPolicy="Retain")
    meta = scenario.objects[resource, name]["metadata"]
    meta["labels"] = {}
    meta.pop("ownerReferences", None)
    assert planned(scenario) == []


def test_a_role_that_lost_its_rules_and_a_label_is_repaired_at_once() -> None:
    scenario = settled()
    role = scenario.objects[ROLES, "demo"]
    role["rules"], role["metadata"]["labels"] = [], {CLUSTER: "demo"}
    assert planned(scenario) == [Cause.AUTOSCALER_ROLE_DRIFT]
    scenario.reconcile()
    assert planned(scenario) == []


# ── a binding to another Role ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("change", [{"name": "admin"}, {"kind": "ClusterRole"}])
def test_a_binding_of_ours_to_another_role_is_made_again(change: dict[str, str]) -> None:
    scenario = settled()
    ours = dict(scenario.objects[ROLE_BINDINGS, "demo"]["roleRef"])
    scenario.objects[ROLE_BINDINGS, "demo"]["roleRef"].update(change)
    [delete] = scenario.plan().actions
    assert isinstance(delete, Delete)
    scenario.settle()
    assert scenario.objects[ROLE_BINDINGS, "demo"]["roleRef"] == ours


@pytest.mark.parametrize("change", [{"name": "admin"}, {"kind": "ClusterRole"}])
def test_a_binding_that_nobody_controls_is_never_deleted(change: dict[str, str]) -> None:
    scenario = settled()
    binding = scenario.objects[ROLE_BINDINGS, "demo"]
    binding["roleRef"].update(change)
    del binding["metadata"]["ownerReferences"]
    assert planned(scenario) == []


def test_a_binding_on_its_way_out_is_not_deleted_again() -> None:
    scenario = settled()
    binding = scenario.objects[ROLE_BINDINGS, "demo"]
    binding["roleRef"]["name"] = "admin"
    binding["metadata"]["deletionTimestamp"] = "2026-11-15T08:00:00Z"
    assert planned(scenario) == []
