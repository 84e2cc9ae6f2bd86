"""The budget of a protected head: made, put right, taken back, and never guessed about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from manta.api.conditions import find
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType
from manta.api.resources import POD_DISRUPTION_BUDGETS, PODS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.head_pdb import plan_head_pdb
from manta.kube.errors import ApiError
from manta.reconcile.actions import Action, Create
from manta.reconcile.causes import ActionCause
from support.merge_patch import merged
from support.raycluster import ray_cluster
from support.raycluster_scenario import Scenario, decode

REPLICA_FAILURE = ClusterConditionType.REPLICA_FAILURE

PROTECTED = {names.ANNOTATION_PROTECT_HEAD: "true"}


def settled() -> Scenario:
    scenario = Scenario(decode(ray_cluster(annotations=PROTECTED)))
    scenario.settle()
    return scenario


def budget(scenario: Scenario) -> dict[str, Any]:
    [found] = scenario.of("PodDisruptionBudget")
    return found


def causes(scenario: Scenario) -> list[ActionCause]:
    return [one.cause for one in scenario.plan().actions]


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
    scenario = settled()
    before = budget(scenario)
    [place] = [one for one in scenario.objects if one[0].kind == "PodDisruptionBudget"]
    scenario.objects[place] = merged(before, edit)
    assert causes(scenario) == [Cause.HEAD_BUDGET_DRIFT]
    scenario.settle()
    assert budget(scenario)["spec"] == before["spec"]
    assert budget(scenario)["metadata"]["labels"] == before["metadata"]["labels"]


def test_what_others_say_beside_it_is_left_alone() -> None:
    scenario = settled()
    budget(scenario)["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    budget(scenario)["metadata"]["labels"]["team"] = "vision"
    assert causes(scenario) == []


def test_it_is_made_again_when_somebody_deletes_it() -> None:
    scenario = settled()
    [place] = [one for one in scenario.objects if one[0].kind == "PodDisruptionBudget"]
    del scenario.objects[place]
    assert causes(scenario) == [Cause.HEAD_BUDGET]


def test_it_goes_when_the_head_is_no_longer_to_be_protected() -> None:
    scenario = settled()
    scenario.set_spec(ray_cluster(), annotations={})
    assert causes(scenario) == [Cause.STALE_BUDGET]
    scenario.settle()
    assert scenario.of("PodDisruptionBudget") == []


def test_a_budget_of_somebody_else_is_not_touched() -> None:
    scenario = settled()
    budget(scenario)["metadata"]["ownerReferences"] = []
    budget(scenario)["spec"]["minAvailable"] = 0
    assert causes(scenario) == []
    scenario.set_spec(ray_cluster(), annotations={})
    assert causes(scenario) == []


def test_before_the_first_list_only_a_new_head_gets_one() -> None:
    scenario = Scenario(decode(ray_cluster(annotations=PROTECTED)))
    unknown = replace(scenario.snapshot(), pdbs_listed=False)
    assert [one.cause for one in plan_head_pdb(unknown).actions] == [Cause.HEAD_BUDGET]
    scenario.settle()
    unknown = replace(scenario.snapshot(), pdbs_listed=False, head_pdb=None)
    assert plan_head_pdb(unknown).actions == ()


def test_before_the_first_list_nothing_is_made_for_a_cluster_that_rests() -> None:
    scenario = Scenario(decode(ray_cluster(annotations=PROTECTED, suspend=True)))
    scenario.settle()
    unknown = replace(scenario.snapshot(), pdbs_listed=False, head_pdb=None)
    assert unknown.is_suspended
    assert plan_head_pdb(unknown).actions == ()


def test_before_the_first_list_a_cluster_that_resumes_gets_one_with_its_new_head() -> None:
    scenario = Scenario(decode(ray_cluster(annotations=PROTECTED, suspend=True)))
    scenario.settle()
    scenario.set_spec(ray_cluster(suspend=False))
    unknown = replace(scenario.snapshot(), pdbs_listed=False, head_pdb=None)
    assert [one.cause for one in plan_head_pdb(unknown).actions] == [Cause.HEAD_BUDGET]


def refused(action: Action) -> Exception | None:
    is_budget = isinstance(action, Create) and action.resource == POD_DISRUPTION_BUDGETS
    return ApiError(403, "Forbidden", "no budgets here") if is_budget else None


def test_a_budget_that_is_refused_keeps_nobody_from_being_ready() -> None:
    scenario = Scenario(decode(ray_cluster(annotations=PROTECTED)))
    for _ in range(4):
        scenario.reconcile(refused)
        scenario.run_pods()
    assert scenario.cluster.status.state == "ready"
    blocked = find(scenario.cluster.status.conditions, ClusterConditionType.BLOCKED)
    assert blocked is not None
    assert "PodDisruptionBudget" in blocked.message
    assert "no budgets here" in blocked.message


def test_a_budget_that_is_refused_neither_hides_nor_keeps_what_is_said_of_pods() -> None:
    def all_refused(action: Action) -> Exception | None:
        is_pod = isinstance(action, Create) and action.resource == PODS
        return ApiError(403, "Forbidden", "no Pods here") if is_pod else refused(action)

    scenario = Scenario(decode(ray_cluster(annotations=PROTECTED)))
    for _ in range(2):
        scenario.reconcile(all_refused)
    failure = find(scenario.cluster.status.conditions, REPLICA_FAILURE)
    assert failure is not None
    assert "no Pods here" in failure.message
    for _ in range(4):
        scenario.reconcile(refused)
        scenario.run_pods()
    assert scenario.cluster.status.state == "ready"
    assert find(scenario.cluster.status.conditions, REPLICA_FAILURE) is None
