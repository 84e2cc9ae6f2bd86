"""Replicas of several hosts live and die as one (C92)."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

from manta.api.resources import PODS
from manta.api.times import format_time
from manta.controllers.raycluster.events import Cause
from manta.kube.errors import Forbidden
from manta.reconcile.actions import Action, Create, Delete
from support.raycluster import group, ray_cluster
from support.raycluster_world import World, decode, set_failed

NAME = "ray.io/worker-group-replica-name"
INDEX = "ray.io/worker-group-replica-index"
HOST = "ray.io/replica-host-index"


def settled(replicas: int = 2, hosts: int = 4, **spec: Any) -> World:
    world = World(decode(ray_cluster(groups=[group(replicas=replicas, numOfHosts=hosts)], **spec)))
    world.settle()
    return world


def replicas_of(world: World) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for pod in world.workers():
        labels = pod["metadata"]["labels"]
        found.setdefault(labels[NAME], []).append((labels[INDEX], labels[HOST]))
    return found


def test_c92_every_replica_has_its_name_and_its_hosts_are_numbered() -> None:
    found = replicas_of(settled())
    assert sorted(found.values()) == [
        [("0", "0"), ("0", "1"), ("0", "2"), ("0", "3")],
        [("1", "0"), ("1", "1"), ("1", "2"), ("1", "3")],
    ]
    assert all(name.startswith("workers-") for name in found)


def test_c92_a_lost_host_takes_its_replica_along() -> None:
    world = settled()
    lost = world.workers()[0]
    labels = lost["metadata"]["labels"]
    del world.objects[PODS, lost["metadata"]["name"]]
    plan = world.round()
    assert [one.cause for one in plan.actions] == [Cause.INCOMPLETE_REPLICA] * 3
    world.settle()
    created = [one for one in world.log if isinstance(one, Create) and one.resource == PODS]
    assert len(created) == 1 + 8 + 4
    assert labels[NAME] not in replicas_of(world)
    assert min(replicas_of(world).values())[0] == ("0", "0")


def test_c92_a_failed_host_takes_its_replica_along() -> None:
    world = settled()
    set_failed(world.workers()[0], world.now)
    assert [one.cause for one in world.plan().actions] == [Cause.UNHEALTHY_WORKER] * 4


def test_naming_one_host_deletes_its_whole_replica_once() -> None:
    world = settled(enableInTreeAutoscaling=True)
    chosen = world.workers()[5]["metadata"]["name"]
    named = group(replicas=1, numOfHosts=4, scaleStrategy={"workersToDelete": [chosen, "absent"]})
    world.set_spec(ray_cluster(groups=[named], enableInTreeAutoscaling=True))
    for _ in range(3):
        world.round()
    deleted = [one.key.name for one in world.log if isinstance(one, Delete)]
    assert len(deleted) == 4
    assert chosen in deleted


def test_scaling_down_removes_the_highest_replica_whole() -> None:
    world = settled(replicas=3, hosts=2)
    world.set_spec(ray_cluster(groups=[group(replicas=2, numOfHosts=2)]))
    world.settle()
    assert sorted(index for pods in replicas_of(world).values() for index, _ in pods) == [
        "0",
        "0",
        "1",
        "1",
    ]


def test_c04_a_replica_that_is_going_is_not_counted_as_surplus() -> None:
    world = settled(replicas=3, hosts=2)
    world.set_spec(ray_cluster(groups=[group(replicas=2, numOfHosts=2)]))
    for _ in range(4):
        world.round()
    assert len([one for one in world.log if isinstance(one, Delete)]) == 2


def test_with_the_autoscaler_no_replica_is_chosen() -> None:
    world = settled(enableInTreeAutoscaling=True)
    small = ray_cluster(groups=[group(replicas=1, numOfHosts=4)], enableInTreeAutoscaling=True)
    world.set_spec(small)
    assert world.plan().actions == ()
    assert world.plan().notes


def test_a_replica_half_gone_waits_for_the_other_half() -> None:
    world = settled(replicas=1, hosts=2)
    first, second = world.workers()
    del world.objects[PODS, first["metadata"]["name"]]
    second["metadata"]["deletionTimestamp"] = format_time(world.now)
    assert world.plan().actions == ()
    world.bury()
    assert [one.cause for one in world.plan().actions] == [Cause.SCALE_UP] * 2


def test_c93_pods_without_labels_are_counted_and_nothing_is_made_twice() -> None:
    world = settled(replicas=1, hosts=2)
    for pod in world.workers():
        for label in (NAME, INDEX, HOST):
            del pod["metadata"]["labels"][label]
    assert world.plan().actions == ()


def test_c93_the_pods_of_a_multi_host_group_have_the_same_volumes_as_others() -> None:
    single = World(decode(ray_cluster(groups=[group(replicas=1)])))
    single.settle()
    multi = settled(replicas=1, hosts=2)
    assert multi.workers()[0]["spec"]["volumes"] == single.workers()[0]["spec"]["volumes"]


def test_c92_a_replica_that_is_refused_a_host_is_tried_ever_more_slowly() -> None:
    """Quota for three of four: what was made is not removed and made again without end."""
    world = World(decode(ray_cluster(groups=[group(replicas=1, numOfHosts=4)])))

    def quota(action: Action) -> Exception | None:
        is_last = isinstance(action, Create) and len(world.workers()) == 3
        return Forbidden(403, "Forbidden", "exceeded quota") if is_last else None

    made: list[int] = []
    for second in range(700):
        world.bury()
        world.run_pods()
        before = len(world.log)
        world.round(quota)
        creations = [one for one in world.log[before:] if isinstance(one, Create)]
        if second and any(one.resource == PODS for one in creations):
            made.append(second)
        world.now += timedelta(seconds=1)
    pauses = [later - sooner for sooner, later in pairwise(made)]
    assert pauses[1:] == sorted(pauses[1:])
    assert pauses[-1] >= 100
    assert world.plan().wait is not None
