"""Pods that are being deleted and do not go away (R24): removed when it is certain that they do not
run, and waited for, in so many words, when it is not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from manta.api.resources import PODS
from manta.api.times import format_time
from manta.controllers.raycluster.blocked import blocked_condition
from manta.controllers.raycluster.events import Cause, told
from manta.controllers.raycluster.plan import plan
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.controllers.raycluster.status import is_whole
from manta.reconcile.actions import Create, Delete
from manta.reconcile.outcome import Outcome, Result
from support.raycluster import ray_cluster
from support.raycluster_world import World, decode, set_failed, set_running

LOST = {"n1": "Node n1 no longer exists"}
FINALIZER = "example.com/kept"


def stuck(kind: str = "head", *, for_: timedelta = timedelta(minutes=1)) -> World:
    """All Pods run on n1. One of them is being deleted, and its time was up a while ago."""
    world = World(decode(ray_cluster()))
    world.settle()
    [pod] = world.heads() if kind == "head" else world.workers()
    pod["metadata"]["deletionTimestamp"] = format_time(world.now)
    world.now += for_
    return world


def seen_by(world: World, lost: dict[str, str] | None = None) -> ClusterSnapshot:
    return replace(world.seen(), lost_nodes=lost or {})


def actions(seen: ClusterSnapshot) -> list[Any]:
    return list(plan(seen).actions)


@pytest.mark.parametrize("kind", ["head", "worker"])
def test_a_pod_whose_node_is_lost_is_removed(kind: str) -> None:
    world = stuck(kind)
    [pod] = world.heads() if kind == "head" else world.workers()
    found = [one for one in actions(seen_by(world, LOST)) if isinstance(one, Delete)]
    [removal] = found
    assert (removal.cause, removal.grace_seconds) == (Cause.POD_LOST, 0)
    assert (removal.key.name, removal.uid) == (pod["metadata"]["name"], pod["metadata"]["uid"])


def test_the_event_says_why() -> None:
    [removal] = [one for one in actions(seen_by(stuck(), LOST)) if isinstance(one, Delete)]
    [event] = told(Outcome((Result(removal, removal.key),)))
    assert (event.type, event.reason) == ("Warning", "DeletedPod")
    assert "Node n1 no longer exists" in event.note


def test_a_head_on_a_node_that_may_only_be_cut_off_is_waited_for() -> None:
    """Its containers may run on: a second head would split the cluster."""
    world = stuck(for_=timedelta(hours=3))
    seen = seen_by(world)
    assert not [one for one in actions(seen) if isinstance(one, Create | Delete)]
    blocked = blocked_condition(seen, Outcome(), whole=False)
    assert blocked is not None
    assert blocked.reason == "StuckTerminating"
    assert "delete the Node or taint it" in blocked.message


def test_a_pod_has_its_time_to_go_by_itself() -> None:
    world = stuck(for_=timedelta(seconds=20))
    assert actions(seen_by(world, LOST)) == []


def test_a_head_whose_containers_have_ended_is_removed_wherever_its_node_is() -> None:
    world = stuck()
    set_failed(world.heads()[0], world.now)
    [removal] = [one for one in actions(seen_by(world)) if isinstance(one, Delete)]
    assert (removal.cause, removal.why) == (Cause.POD_LOST, "its containers have ended")


def test_a_head_that_only_a_finalizer_keeps_is_replaced_under_another_name() -> None:
    world = stuck()
    [pod] = world.heads()
    pod["metadata"]["finalizers"] = [FINALIZER]
    seen = seen_by(world, LOST)
    [creation] = actions(seen)
    assert creation.cause is Cause.NO_HEAD
    assert creation.key.name != pod["metadata"]["name"]
    world.apply(creation)
    set_running(world.objects[PODS, creation.key.name])
    seen = seen_by(world, LOST)
    assert actions(seen) == []
    assert is_whole(seen)
    blocked = blocked_condition(seen, Outcome(), whole=True)
    assert blocked is not None
    assert FINALIZER in blocked.message


def test_it_is_replaced_only_when_the_status_names_it() -> None:
    """Else its successor would get the name that it still holds."""
    world = World(decode(ray_cluster(groups=[])))
    world.round(report=False)
    [pod] = world.heads()
    set_running(pod)
    pod["metadata"] |= {"deletionTimestamp": format_time(world.now), "finalizers": [FINALIZER]}
    world.now += timedelta(minutes=1)
    assert actions(seen_by(world, LOST)) == []
    world.report(seen_by(world, LOST), Outcome())
    [creation] = actions(seen_by(world, LOST))
    assert creation.key.name != pod["metadata"]["name"]


def test_a_deletion_that_waits_for_its_head_is_not_held_up_by_a_lost_node() -> None:
    redis = {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}
    world = World(decode(ray_cluster(**redis)))
    world.settle()
    world.cluster = decode(
        ray_cluster(**redis),
        deletionTimestamp=format_time(world.now),
        finalizers=list(world.cluster.metadata.finalizers),
    )
    for one in (*world.heads(), *world.workers()):
        one["metadata"]["deletionTimestamp"] = format_time(world.now)
    world.now += timedelta(minutes=1)
    assert [one.cause for one in actions(seen_by(world, LOST))] == [Cause.POD_LOST] * 2
