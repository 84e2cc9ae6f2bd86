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
from support.raycluster_world import World, decode, set_failed


def settled(*groups: dict[str, Any], **spec: Any) -> World:
    world = World(decode(ray_cluster(groups=list(groups), **spec)))
    world.settle()
    return world


def causes(world: World) -> list[Any]:
    return [action.cause for action in world.plan().actions]


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
    world = World(decode(ray_cluster(groups=[group(replicas=5)])))
    stages = world.plan().stages
    assert [len(stage.actions) for stage in stages] == [1, 1, 5]


def test_a_failed_worker_is_deleted_before_any_is_created() -> None:
    world = settled(group(replicas=2))
    set_failed(world.workers()[0], world.now)
    world.set_spec(ray_cluster(groups=[group(replicas=5)]))
    assert causes(world) == [Cause.UNHEALTHY_WORKER]


def test_a_group_in_trouble_holds_up_no_other() -> None:
    world = settled(group("a", replicas=1), group("b", replicas=1))
    set_failed(world.workers("a")[0], world.now)
    world.set_spec(ray_cluster(groups=[group("a", replicas=1), group("b", replicas=2)]))
    assert causes(world) == [Cause.UNHEALTHY_WORKER, Cause.SCALE_UP]


def test_c04_slowly_terminating_pods_are_not_deleted_again() -> None:
    world = settled(group(replicas=6))
    for wanted in (5, 4):
        world.set_spec(ray_cluster(groups=[group(replicas=wanted)]))
        for _ in range(3):
            world.round()
            world.now += timedelta(seconds=5)
    deleted = [one for one in world.log if isinstance(one, Delete)]
    assert len(deleted) == 2


def test_c04_a_pod_that_somebody_else_deletes_is_one_of_those_that_go() -> None:
    world = settled(group(replicas=6))
    eldest = world.workers()[0]["metadata"]
    eldest["creationTimestamp"] = format_time(world.now - timedelta(days=1))
    eldest["deletionTimestamp"] = format_time(world.now)
    world.set_spec(ray_cluster(groups=[group(replicas=5)]))
    assert causes(world) == []


def test_c04_a_named_pod_that_is_going_already_is_not_deleted_again() -> None:
    world = settled(group(replicas=3), enableInTreeAutoscaling=True)
    going = world.workers()[0]["metadata"]
    going["deletionTimestamp"] = format_time(world.now)
    named = group(replicas=2, scaleStrategy={"workersToDelete": [going["name"]]})
    world.set_spec(ray_cluster(groups=[named], enableInTreeAutoscaling=True))
    assert causes(world) == []


def test_a_terminating_pod_keeps_its_place_until_it_is_gone() -> None:
    world = settled(group(replicas=2))
    world.workers()[0]["metadata"]["deletionTimestamp"] = format_time(world.now)
    assert causes(world) == []
    world.bury()
    assert causes(world) == [Cause.SCALE_UP]


def test_a_pod_stuck_on_a_lost_node_does_not_keep_its_place_for_ever() -> None:
    world = settled(group(replicas=1))
    world.workers()[0]["metadata"]["deletionTimestamp"] = format_time(world.now)
    world.now += timedelta(seconds=61)
    assert causes(world) == [Cause.SCALE_UP]


def test_c05_the_autoscaler_alone_picks_healthy_victims() -> None:
    world = settled(group(replicas=3), enableInTreeAutoscaling=True)
    world.set_spec(ray_cluster(groups=[group(replicas=1)], enableInTreeAutoscaling=True))
    assert causes(world) == []
    assert world.plan().notes
    world.settings = replace(world.settings, random_pod_delete=True)
    assert causes(world) == [Cause.SCALE_DOWN] * 2


def test_c05_victims_come_in_the_documented_order() -> None:
    world = settled(group(replicas=5))
    pods = world.workers()
    for number, pod in enumerate(pods):
        pod["metadata"]["creationTimestamp"] = format_time(world.now + timedelta(seconds=number))
    pods[0]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    pods[1]["status"] = {"phase": "Pending"}
    pods[2]["status"] = {"phase": "Pending"}
    pods[2]["spec"]["nodeName"] = ""
    order = [pods[2], pods[1], pods[0], pods[4], pods[3]]
    for count in range(1, 6):
        world.set_spec(ray_cluster(groups=[group(replicas=5 - count)]))
        victims = [one.key.name for one in world.plan().actions]
        assert victims == names_of(order[:count])


def test_c06_absent_names_are_no_ops() -> None:
    gone = {"workersToDelete": ["x", "y", "z"]}
    world = settled(group(replicas=2, scaleStrategy=gone), enableInTreeAutoscaling=True)
    assert len(world.workers()) == 2
    assert world.plan().wait is None
    assert causes(world) == []


def test_c08_one_absent_name_does_not_protect_the_others() -> None:
    world = settled(group(replicas=2), enableInTreeAutoscaling=True)
    present = world.workers()[0]["metadata"]["name"]
    named = group(replicas=1, scaleStrategy={"workersToDelete": ["absent", present]})
    world.set_spec(ray_cluster(groups=[named], enableInTreeAutoscaling=True))
    assert [one.key.name for one in world.plan().actions] == [present]


@pytest.mark.parametrize("autoscaling", [True, False])
def test_c06_a_named_pod_is_never_counted_twice(autoscaling: bool) -> None:
    world = settled(group(replicas=3), enableInTreeAutoscaling=autoscaling)
    present = world.workers()[0]["metadata"]["name"]
    named = group(replicas=2, scaleStrategy={"workersToDelete": [present]})
    world.set_spec(ray_cluster(groups=[named], enableInTreeAutoscaling=autoscaling))
    world.settle()
    world.settle()
    assert len([one for one in world.log if isinstance(one, Delete)]) == 1
    assert len(world.workers()) == 2


def test_c07_a_pod_that_went_by_itself_blocks_no_growth() -> None:
    world = settled(group(replicas=2), enableInTreeAutoscaling=True)
    gone = world.workers()[0]
    gone["metadata"]["deletionTimestamp"] = format_time(world.now)
    world.bury()
    named = group(replicas=2, scaleStrategy={"workersToDelete": [gone["metadata"]["name"]]})
    world.set_spec(ray_cluster(groups=[named], enableInTreeAutoscaling=True))
    assert causes(world) == [Cause.SCALE_UP]


def test_c14_pods_of_a_removed_group_are_deleted() -> None:
    world = settled(group("a"), group("b", replicas=2))
    world.set_spec(ray_cluster(groups=[group("a")]))
    assert causes(world) == [Cause.GROUP_REMOVED] * 2


def test_a_suspended_group_loses_its_pods_and_no_other_does() -> None:
    world = settled(group("a", replicas=2), group("b"))
    world.set_spec(ray_cluster(groups=[group("a", replicas=2, suspend=True), group("b")]))
    assert causes(world) == [Cause.GROUP_SUSPENDED] * 2


def test_c18_pending_pods_go_first_when_the_limit_is_lowered() -> None:
    world = settled(group(replicas=3))
    running = names_of(world.workers())
    world.set_spec(ray_cluster(groups=[group(replicas=10)]))
    world.round()
    world.set_spec(ray_cluster(groups=[group(replicas=10, maxReplicas=3)]))
    assert {one.key.name for one in world.plan().actions}.isdisjoint(running)
    assert len(world.plan().actions) == 7


def test_workers_bear_the_lowest_free_replica_indexes() -> None:
    world = settled(group(replicas=3))
    index = "ray.io/worker-group-replica-index"
    del world.objects[PODS, world.workers()[1]["metadata"]["name"]]
    [create] = world.plan().actions
    assert isinstance(create, Create)
    assert create.manifest["metadata"]["labels"][index] == "1"


def test_indexes_are_left_out_when_the_gate_is_off() -> None:
    world = World(decode(ray_cluster(groups=[group(replicas=1)])))
    world.settings = replace(
        world.settings, gates=replace(world.settings.gates, ray_multi_host_indexing=False)
    )
    world.settle()
    assert "ray.io/worker-group-replica-index" not in world.workers()[0]["metadata"]["labels"]


def test_new_names_follow_the_seed_and_nothing_else() -> None:
    world = World(decode(ray_cluster(groups=[group(replicas=3)])))
    assert world.plan() == world.plan()
    first = world.plan()
    world.serial += 1
    assert world.plan() != first
