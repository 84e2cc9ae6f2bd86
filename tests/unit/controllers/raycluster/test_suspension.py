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
from support.raycluster_world import World, decode


def ready() -> World:
    world = World(decode(ray_cluster(groups=[group(replicas=2)])))
    world.settle()
    return world


def suspend(world: World, value: bool | None) -> None:
    body = ray_cluster(groups=[group(replicas=2)], suspend=value)
    world.set_spec(body if value is not None else ray_cluster(groups=[group(replicas=2)]))


def said(world: World) -> dict[str, str]:
    return {one.type: one.status for one in world.cluster.status.conditions}


def test_suspending_is_written_before_any_pod_goes() -> None:
    world = ready()
    suspend(world, True)
    assert world.round().actions == ()
    assert said(world)["RayClusterSuspending"] == "True"
    assert [one.cause for one in world.round().actions] == [Cause.SUSPENDED] * 3


def test_the_end_is_written_when_no_pod_is_left() -> None:
    world = ready()
    suspend(world, True)
    world.settle()
    status = world.cluster.status
    assert status.state == "suspended"
    assert said(world) == {
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
    world = ready()
    suspend(world, True)
    world.round()
    suspend(world, False)
    assert [one.cause for one in world.round().actions] == [Cause.SUSPENDED] * 3
    world.bury()
    world.round()
    assert said(world)["RayClusterSuspended"] == "True"
    world.settle()
    assert world.cluster.status.state == "ready"
    assert len(world.pods) == 3


@pytest.mark.parametrize(("value", "pods"), [(False, 3), (None, 0)])
def test_only_an_explicit_false_resumes(value: bool | None, pods: int) -> None:
    world = ready()
    suspend(world, True)
    world.settle()
    suspend(world, value)
    world.settle()
    assert len(world.pods) == pods


def test_a_resumed_cluster_is_provisioned_anew() -> None:
    world = ready()
    suspend(world, True)
    world.settle()
    suspend(world, False)
    world.round()
    world.round()
    assert said(world)["RayClusterProvisioned"] == "False"
    world.settle()
    assert said(world)["RayClusterProvisioned"] == "True"


def test_c32_a_suspended_cluster_costs_nothing() -> None:
    world = ready()
    suspend(world, True)
    world.settle()
    writes = world.status_writes
    for _ in range(10):
        world.now += timedelta(minutes=1)
        assert world.round().actions == ()
    assert world.status_writes == writes
    assert world.seen().is_resting


def test_a_cluster_created_suspended_never_has_pods() -> None:
    world = World(decode(ray_cluster(suspend=True)))
    world.settle()
    assert world.pods == {}
    assert world.cluster.status.state == "suspended"
    assert [one["kind"] for one in world.objects.values()] == ["Service"]


def test_without_the_conditions_gate_the_spec_alone_decides() -> None:
    world = ready()
    gates = replace(world.settings.gates, ray_cluster_status_conditions=False)
    world.settings = replace(world.settings, gates=gates)
    suspend(world, True)
    assert [one.cause for one in world.round().actions] == [Cause.SUSPENDED] * 3


def test_a_status_that_is_both_is_healed(caplog: Any) -> None:
    world = ready()
    suspend(world, True)
    world.settle()
    both = tuple(
        msgspec.structs.replace(one, status="True") if one.type == "RayClusterSuspending" else one
        for one in world.cluster.status.conditions
    )
    status = msgspec.structs.replace(world.cluster.status, conditions=both)
    world.cluster = msgspec.structs.replace(world.cluster, status=status)
    assert [one.field for one in world.seen().violations] == ["status.conditions"]
    world.settle()
    assert world.seen().violations == ()
    assert said(world)["RayClusterSuspended"] == "True"
