"""A RayCluster that waits for what an earlier one of its name left behind says so, with the cure."""

from __future__ import annotations

from datetime import timedelta

from manta.api.conditions import find
from manta.api.meta import Condition
from manta.api.resources import PODS, SERVICES, Resource
from manta.api.times import format_time
from support.raycluster import ray_cluster
from support.raycluster_scenario import HEAD, Scenario, decode

SERVICE = "demo-head-svc"


def replaced(kind: Resource, *, deleted: bool = True, **meta: object) -> Scenario:
    """The RayCluster was deleted and created again, and only one object of the first is left."""
    scenario = Scenario(decode(ray_cluster(groups=[])))
    scenario.settle()
    created = format_time(scenario.now)
    scenario.cluster = decode(ray_cluster(groups=[]), uid="c2", creationTimestamp=created)
    scenario.objects = {key: one for key, one in scenario.objects.items() if key[0] == kind}
    [left] = scenario.objects.values()
    left["metadata"] |= {"deletionTimestamp": created} if deleted else {}
    left["metadata"] |= meta
    return scenario


def blocked(scenario: Scenario) -> Condition | None:
    return find(scenario.cluster.status.conditions, "Blocked")


def after_a_while(scenario: Scenario) -> Condition:
    scenario.reconcile()
    assert blocked(scenario) is None, "it may still go by itself"
    scenario.now += timedelta(seconds=61)
    scenario.reconcile()
    found = blocked(scenario)
    assert found is not None
    assert found.reason == "EarlierObjectRemains"
    return found


def test_an_earlier_head_on_a_node_that_does_not_answer() -> None:
    scenario = replaced(PODS)
    [head] = scenario.heads()
    head["spec"]["nodeName"] = "lost-node"
    message = after_a_while(scenario).message
    assert f"Pod {HEAD} of an earlier RayCluster of this name" in message
    assert "on node lost-node" in message
    assert "delete the Node or taint it" in message


def test_an_earlier_service_that_a_cloud_keeps() -> None:
    scenario = replaced(SERVICES, finalizers=["service.kubernetes.io/load-balancer-cleanup"])
    message = after_a_while(scenario).message
    assert f"Service {SERVICE} of an earlier RayCluster of this name" in message
    assert "kept by the finalizers service.kubernetes.io/load-balancer-cleanup" in message


def test_an_earlier_object_that_nobody_deletes() -> None:
    for kind, name in ((PODS, f"Pod {HEAD}"), (SERVICES, f"Service {SERVICE}")):
        message = after_a_while(replaced(kind, deleted=False)).message
        assert f"{name} of an earlier RayCluster of this name" in message
        assert "the garbage collector" in message


def test_the_condition_goes_when_the_object_is_gone() -> None:
    scenario = replaced(SERVICES)
    after_a_while(scenario)
    scenario.objects.clear()
    scenario.reconcile()
    assert blocked(scenario) is None
