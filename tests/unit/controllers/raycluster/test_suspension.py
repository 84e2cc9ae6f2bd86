"""Suspend and resume: a suspension that began is completed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from manta.api.conditions import find
from manta.controllers.raycluster.events import Cause
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import Scenario, decode


def ready() -> Scenario:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=2)])))
    scenario.settle()
    return scenario


def suspend(scenario: Scenario, value: bool | None) -> None:
    body = ray_cluster(groups=[group(replicas=2)], suspend=value)
    scenario.set_spec(body if value is not None else ray_cluster(groups=[group(replicas=2)]))


def said(scenario: Scenario) -> dict[str, str]:
    return {one.type: one.status for one in scenario.cluster.status.conditions}


def test_suspending_is_written_before_any_pod_goes() -> None:
    scenario = ready()
    suspend(scenario, True)
    assert scenario.reconcile().actions == ()
    assert said(scenario)["RayClusterSuspending"] == "True"
    assert [one.cause for one in scenario.reconcile().actions] == [Cause.SUSPENDED] * 3


def test_the_end_is_written_when_no_pod_is_left() -> None:
    scenario = ready()
    suspend(scenario, True)
    scenario.settle()
    status = scenario.cluster.status
    assert status.state == "suspended"
    assert said(scenario) == {
        "HeadPodReady": "False",
        "RayClusterProvisioned": "False",
        "RayClusterSuspending": "False",
        "RayClusterSuspended": "True",
    }
    provisioned = find(status.conditions, "RayClusterProvisioned")
    assert provisioned is not None
    assert provisioned.message == "RayCluster has been suspended"
    assert provisioned.reason == "RayClusterPodsProvisioning"  # R13, KubeRay's


def test_a_suspension_that_began_is_completed_even_if_taken_back() -> None:
    scenario = ready()
    suspend(scenario, True)
    scenario.reconcile()
    suspend(scenario, False)
    assert [one.cause for one in scenario.reconcile().actions] == [Cause.SUSPENDED] * 3
    scenario.remove_deleted()
    scenario.reconcile()
    assert said(scenario)["RayClusterSuspended"] == "True"
    scenario.settle()
    assert scenario.cluster.status.state == "ready"
    assert len(scenario.pods) == 3


@pytest.mark.parametrize(("value", "pods"), [(False, 3), (None, 0)])
def test_only_an_explicit_false_resumes(value: bool | None, pods: int) -> None:
    scenario = ready()
    suspend(scenario, True)
    scenario.settle()
    suspend(scenario, value)
    scenario.settle()
    assert len(scenario.pods) == pods


def test_a_resumed_cluster_is_provisioned_again() -> None:
    scenario = ready()
    suspend(scenario, True)
    scenario.settle()
    suspend(scenario, False)
    scenario.reconcile()
    scenario.reconcile()
    assert said(scenario)["RayClusterProvisioned"] == "False"
    scenario.settle()
    assert said(scenario)["RayClusterProvisioned"] == "True"


def test_c32_a_suspended_cluster_costs_nothing() -> None:
    scenario = ready()
    suspend(scenario, True)
    scenario.settle()
    writes = scenario.status_writes
    for _ in range(10):
        scenario.now += timedelta(minutes=1)
        assert scenario.reconcile().actions == ()
    assert scenario.status_writes == writes
    assert scenario.snapshot().is_suspended


def test_a_cluster_created_suspended_never_has_pods() -> None:
    scenario = Scenario(decode(ray_cluster(suspend=True)))
    scenario.settle()
    assert scenario.pods == {}
    assert scenario.cluster.status.state == "suspended"
    assert [one["kind"] for one in scenario.objects.values()] == ["Service"]


def test_without_the_conditions_gate_the_spec_alone_decides() -> None:
    scenario = ready()
    gates = replace(scenario.settings.gates, ray_cluster_status_conditions=False)
    scenario.settings = replace(scenario.settings, gates=gates)
    suspend(scenario, True)
    assert [one.cause for one in scenario.reconcile().actions] == [Cause.SUSPENDED] * 3


def test_a_status_that_is_both_is_healed(caplog: Any) -> None:
    scenario = ready()
    suspend(scenario, True)
    scenario.settle()
    both = tuple(
        msgspec.structs.replace(one, status="True") if one.type == "RayClusterSuspending" else one
        for one in scenario.cluster.status.conditions
    )
    status = msgspec.structs.replace(scenario.cluster.status, conditions=both)
    scenario.cluster = msgspec.structs.replace(scenario.cluster, status=status)
    assert [one.field for one in scenario.snapshot().violations] == ["status.conditions"]
    scenario.settle()
    assert scenario.snapshot().violations == ()
    assert said(scenario)["RayClusterSuspended"] == "True"
