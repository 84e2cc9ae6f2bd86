"""The budget of a protected head: made, put right, taken back, and never guessed about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from manta.api.conditions import find
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType
from manta.api.resources import POD_DISRUPTION_BUDGETS, PODS
from manta.controllers.raycluster.conditions import BLOCKED
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.head_budget import plan_head_budget
from manta.kube.errors import ApiError
from manta.reconcile.actions import Action, Create
from support.raycluster import ray_cluster
from support.raycluster_world import World, decode, merged

REPLICA_FAILURE = ClusterConditionType.REPLICA_FAILURE

PROTECTED = {names.ANNOTATION_PROTECT_HEAD: "true"}


def settled() -> World:
    world = World(decode(ray_cluster(annotations=PROTECTED)))
    world.settle()
    return world


def budget(world: World) -> dict[str, Any]:
    [found] = world.of("PodDisruptionBudget")
    return found


def causes(world: World) -> list[str]:
    return [one.cause for one in world.plan().actions]


@pytest.mark.parametrize(
    "edit",
    [
        {"spec": {"minAvailable": 0}},
        {"spec": {"minAvailable": None, "maxUnavailable": 1}},
        {"spec": {"selector": {"matchLabels": {"ray.io/cluster": "another"}}}},
        {"spec": {"selector": {"matchLabels": {"more": "than ours"}}}},
        {"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}},
        {"metadata": {"labels": {"ray.io/cluster": None}}},
    ],
)
def test_what_somebody_changed_is_put_right(edit: dict[str, Any]) -> None:
    world = settled()
    before = budget(world)
    [place] = [one for one in world.objects if one[0].kind == "PodDisruptionBudget"]
    world.objects[place] = merged(before, edit)
    assert causes(world) == [Cause.HEAD_BUDGET_DRIFT]
    world.settle()
    assert budget(world)["spec"] == before["spec"]
    assert budget(world)["metadata"]["labels"] == before["metadata"]["labels"]


def test_what_others_say_beside_it_is_left_alone() -> None:
    world = settled()
    budget(world)["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    budget(world)["metadata"]["labels"]["team"] = "vision"
    assert causes(world) == []


def test_it_is_made_again_when_somebody_deletes_it() -> None:
    world = settled()
    [place] = [one for one in world.objects if one[0].kind == "PodDisruptionBudget"]
    del world.objects[place]
    assert causes(world) == [Cause.HEAD_BUDGET]


def test_it_goes_when_the_head_is_no_longer_to_be_protected() -> None:
    world = settled()
    world.set_spec(ray_cluster(), annotations={})
    assert causes(world) == [Cause.STALE_BUDGET]
    world.settle()
    assert world.of("PodDisruptionBudget") == []


def test_a_budget_of_somebody_else_is_not_touched() -> None:
    world = settled()
    budget(world)["metadata"]["ownerReferences"] = []
    budget(world)["spec"]["minAvailable"] = 0
    assert causes(world) == []
    world.set_spec(ray_cluster(), annotations={})
    assert causes(world) == []


def test_before_the_first_list_only_a_new_head_gets_one() -> None:
    world = World(decode(ray_cluster(annotations=PROTECTED)))
    unknown = replace(world.seen(), knows_budgets=False)
    assert [one.cause for one in plan_head_budget(unknown).actions] == [Cause.HEAD_BUDGET]
    world.settle()
    unknown = replace(world.seen(), knows_budgets=False, head_budget=None)
    assert plan_head_budget(unknown).actions == ()


def test_before_the_first_list_nothing_is_made_for_a_cluster_that_rests() -> None:
    world = World(decode(ray_cluster(annotations=PROTECTED, suspend=True)))
    world.settle()
    unknown = replace(world.seen(), knows_budgets=False, head_budget=None)
    assert unknown.is_resting
    assert plan_head_budget(unknown).actions == ()


def refused(action: Action) -> Exception | None:
    is_budget = isinstance(action, Create) and action.resource == POD_DISRUPTION_BUDGETS
    return ApiError(403, "Forbidden", "no budgets here") if is_budget else None


def test_a_budget_that_is_refused_keeps_nobody_from_being_ready() -> None:
    world = World(decode(ray_cluster(annotations=PROTECTED)))
    for _ in range(4):
        world.round(refused)
        world.run_pods()
    assert world.cluster.status.state == "ready"
    blocked = find(world.cluster.status.conditions, BLOCKED)
    assert blocked is not None
    assert "PodDisruptionBudget" in blocked.message
    assert "no budgets here" in blocked.message


def test_a_budget_that_is_refused_neither_hides_nor_keeps_what_is_said_of_pods() -> None:
    def all_refused(action: Action) -> Exception | None:
        is_pod = isinstance(action, Create) and action.resource == PODS
        return ApiError(403, "Forbidden", "no Pods here") if is_pod else refused(action)

    world = World(decode(ray_cluster(annotations=PROTECTED)))
    for _ in range(2):
        world.round(all_refused)
    failure = find(world.cluster.status.conditions, REPLICA_FAILURE)
    assert failure is not None
    assert "no Pods here" in failure.message
    for _ in range(4):
        world.round(refused)
        world.run_pods()
    assert world.cluster.status.state == "ready"
    assert find(world.cluster.status.conditions, REPLICA_FAILURE) is None
