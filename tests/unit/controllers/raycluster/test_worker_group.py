"""Worker groups: what is created, what is deleted, and when neither."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from manta.api.resources import PODS
from manta.api.times import format_time
from manta.controllers.raycluster.events import Cause
from manta.reconcile.actions import Create, Delete
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import Scenario, decode, set_failed


def settled(*groups: dict[str, Any], **spec: Any) -> Scenario:
    scenario = Scenario(decode(ray_cluster(groups=list(groups), **spec)))
    scenario.settle()
    return scenario


def causes(scenario: Scenario) -> list[Any]:
    return [action.cause for action in scenario.plan().actions]


def names_of(pods: list[dict[str, Any]]) -> list[str]:
    return [one["metadata"]["name"] for one in pods]


@pytest.mark.parametrize(
    ("fields", "pods"),
    [
        ({"replicas": 3}, 3),
        ({"replicas": 0, "minReplicas": 2}, 2),
        ({"replicas": 15}, 10),
        ({"replicas": None, "minReplicas": 1}, 1),
        ({"replicas": 3, "numOfHosts": 2}, 6),
        ({"replicas": 3, "suspend": True}, 0),
        ({"replicas": 1, "numOfHosts": 0}, 0),
    ],
)
def test_c12_a_group_has_replicas_held_within_its_bounds_times_hosts(
    fields: dict[str, Any], pods: int
) -> None:
    assert len(settled(group(**fields)).workers()) == pods


def test_all_missing_workers_are_asked_for_at_once() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=5)])))
    stages = scenario.plan().stages
    assert [len(stage.actions) for stage in stages] == [1, 1, 5]


def test_a_failed_worker_is_deleted_before_any_is_created() -> None:
    scenario = settled(group(replicas=2))
    set_failed(scenario.workers()[0], scenario.now)
    scenario.set_spec(ray_cluster(groups=[group(replicas=5)]))
    assert causes(scenario) == [Cause.UNHEALTHY_WORKER]


def test_a_group_in_trouble_holds_up_no_other() -> None:
    scenario = settled(group("a", replicas=1), group("b", replicas=1))
    set_failed(scenario.workers("a")[0], scenario.now)
    scenario.set_spec(ray_cluster(groups=[group("a", replicas=1), group("b", replicas=2)]))
    assert causes(scenario) == [Cause.UNHEALTHY_WORKER, Cause.SCALE_UP]


def test_c04_slowly_terminating_pods_are_not_deleted_again() -> None:
    scenario = settled(group(replicas=6))
    for wanted in (5, 4):
        scenario.set_spec(ray_cluster(groups=[group(replicas=wanted)]))
        for _ in range(3):
            scenario.reconcile()
            scenario.now += timedelta(seconds=5)
    deleted = [one for one in scenario.log if isinstance(one, Delete)]
    assert len(deleted) == 2


def test_c04_a_pod_that_somebody_else_deletes_is_one_of_those_that_go() -> None:
    scenario = settled(group(replicas=6))
    eldest = scenario.workers()[0]["metadata"]
    eldest["creationTimestamp"] = format_time(scenario.now - timedelta(days=1))
    eldest["deletionTimestamp"] = format_time(scenario.now)
    scenario.set_spec(ray_cluster(groups=[group(replicas=5)]))
    assert causes(scenario) == []


def test_c04_a_named_pod_that_is_going_already_is_not_deleted_again() -> None:
    scenario = settled(group(replicas=3), enableInTreeAutoscaling=True)
    going = scenario.workers()[0]["metadata"]
    going["deletionTimestamp"] = format_time(scenario.now)
    named = group(replicas=2, scaleStrategy={"workersToDelete": [going["name"]]})
    scenario.set_spec(ray_cluster(groups=[named], enableInTreeAutoscaling=True))
    assert causes(scenario) == []


def test_a_terminating_pod_keeps_its_place_until_it_is_gone() -> None:
    scenario = settled(group(replicas=2))
    scenario.workers()[0]["metadata"]["deletionTimestamp"] = format_time(scenario.now)
    assert causes(scenario) == []
    scenario.remove_deleted()
    assert causes(scenario) == [Cause.SCALE_UP]


def test_a_pod_stuck_on_a_lost_node_does_not_keep_its_place_for_ever() -> None:
    scenario = settled(group(replicas=1))
    scenario.workers()[0]["metadata"]["deletionTimestamp"] = format_time(scenario.now)
    scenario.now += timedelta(seconds=61)
    assert causes(scenario) == [Cause.SCALE_UP]


def test_c05_the_autoscaler_alone_picks_healthy_victims() -> None:
    scenario = settled(group(replicas=3), enableInTreeAutoscaling=True)
    scenario.set_spec(ray_cluster(groups=[group(replicas=1)], enableInTreeAutoscaling=True))
    assert causes(scenario) == []
    assert scenario.plan().notes
    scenario.settings = replace(scenario.settings, random_pod_delete=True)
    assert causes(scenario) == [Cause.SCALE_DOWN] * 2


def test_c05_victims_come_in_the_documented_order() -> None:
    scenario = settled(group(replicas=5))
    pods = scenario.workers()
    for number, pod in enumerate(pods):
        pod["metadata"]["creationTimestamp"] = format_time(scenario.now + timedelta(seconds=number))
    pods[0]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    pods[1]["status"] = {"phase": "Pending"}
    pods[2]["status"] = {"phase": "Pending"}
    pods[1]["spec"]["nodeName"] = ""
    order = [pods[1], pods[2], pods[0], pods[4], pods[3]]
    for count in range(1, 6):
        scenario.set_spec(ray_cluster(groups=[group(replicas=5 - count)]))
        candidates = [one.key.name for one in scenario.plan().actions]
        assert candidates == names_of(order[:count])


def test_c06_absent_names_are_no_ops() -> None:
    gone = {"workersToDelete": ["x", "y", "z"]}
    scenario = settled(group(replicas=2, scaleStrategy=gone), enableInTreeAutoscaling=True)
    assert len(scenario.workers()) == 2
    assert scenario.plan().wait is None
    assert causes(scenario) == []


def test_c08_one_absent_name_does_not_protect_the_others() -> None:
    scenario = settled(group(replicas=2), enableInTreeAutoscaling=True)
    present = scenario.workers()[0]["metadata"]["name"]
    named = group(replicas=1, scaleStrategy={"workersToDelete": ["absent", present]})
    scenario.set_spec(ray_cluster(groups=[named], enableInTreeAutoscaling=True))
    assert [one.key.name for one in scenario.plan().actions] == [present]


@pytest.mark.parametrize("autoscaling", [True, False])
def test_c06_a_named_pod_is_never_counted_twice(autoscaling: bool) -> None:
    scenario = settled(group(replicas=3), enableInTreeAutoscaling=autoscaling)
    present = scenario.workers()[0]["metadata"]["name"]
    named = group(replicas=2, scaleStrategy={"workersToDelete": [present]})
    scenario.set_spec(ray_cluster(groups=[named], enableInTreeAutoscaling=autoscaling))
    scenario.settle()
    scenario.settle()
    assert len([one for one in scenario.log if isinstance(one, Delete)]) == 1
    assert len(scenario.workers()) == 2


def test_c07_a_pod_that_went_by_itself_blocks_no_growth() -> None:
    scenario = settled(group(replicas=2), enableInTreeAutoscaling=True)
    gone = scenario.workers()[0]
    gone["metadata"]["deletionTimestamp"] = format_time(scenario.now)
    scenario.remove_deleted()
    named = group(replicas=2, scaleStrategy={"workersToDelete": [gone["metadata"]["name"]]})
    scenario.set_spec(ray_cluster(groups=[named], enableInTreeAutoscaling=True))
    assert causes(scenario) == [Cause.SCALE_UP]


def test_c14_pods_of_a_removed_group_are_deleted() -> None:
    scenario = settled(group("a"), group("b", replicas=2))
    scenario.set_spec(ray_cluster(groups=[group("a")]))
    assert causes(scenario) == [Cause.GROUP_REMOVED] * 2


def test_a_suspended_group_loses_its_pods_and_no_other_does() -> None:
    scenario = settled(group("a", replicas=2), group("b"))
    scenario.set_spec(ray_cluster(groups=[group("a", replicas=2, suspend=True), group("b")]))
    assert causes(scenario) == [Cause.GROUP_SUSPENDED] * 2


def test_c18_pending_pods_go_first_when_the_limit_is_lowered() -> None:
    scenario = settled(group(replicas=3))
    running = names_of(scenario.workers())
    scenario.set_spec(ray_cluster(groups=[group(replicas=10)]))
    scenario.reconcile()
    scenario.set_spec(ray_cluster(groups=[group(replicas=10, maxReplicas=3)]))
    assert {one.key.name for one in scenario.plan().actions}.isdisjoint(running)
    assert len(scenario.plan().actions) == 7


def test_workers_bear_the_lowest_free_replica_indexes() -> None:
    scenario = settled(group(replicas=3))
    index = "ray.io/worker-group-replica-index"
    del scenario.objects[PODS, scenario.workers()[1]["metadata"]["name"]]
    [create] = scenario.plan().actions
    assert isinstance(create, Create)
    assert create.manifest["metadata"]["labels"][index] == "1"


def test_indexes_are_left_out_when_the_gate_is_off() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=1)])))
    scenario.settings = replace(
        scenario.settings, gates=replace(scenario.settings.gates, ray_multi_host_indexing=False)
    )
    scenario.settle()
    assert "ray.io/worker-group-replica-index" not in scenario.workers()[0]["metadata"]["labels"]


def test_new_names_follow_the_seed_and_nothing_else() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=3)])))
    assert scenario.plan() == scenario.plan()
    first = scenario.plan()
    scenario.serial += 1
    assert scenario.plan() != first
