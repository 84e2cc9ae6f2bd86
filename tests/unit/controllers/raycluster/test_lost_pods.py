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
from manta.controllers.raycluster.events import Cause, action_events
from manta.controllers.raycluster.facts import all_pods_ready
from manta.controllers.raycluster.plan import plan
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.actions import Create, Delete
from manta.reconcile.outcome import Outcome, Result
from support.raycluster import ray_cluster
from support.raycluster_scenario import Scenario, decode, set_failed, set_running

LOST = {"n1": "Node n1 no longer exists"}
FINALIZER = "example.com/kept"


def stuck(kind: str = "head", *, for_: timedelta = timedelta(minutes=1)) -> Scenario:
    """All Pods run on n1. One of them is being deleted, and its time was up a while ago."""
    scenario = Scenario(decode(ray_cluster()))
    scenario.settle()
    [pod] = scenario.heads() if kind == "head" else scenario.workers()
    pod["metadata"]["deletionTimestamp"] = format_time(scenario.now)
    scenario.now += for_
    return scenario


def seen_by(scenario: Scenario, lost: dict[str, str] | None = None) -> ClusterSnapshot:
    return replace(scenario.snapshot(), lost_nodes=lost or {})


def actions(snapshot: ClusterSnapshot) -> list[Any]:
    return list(plan(snapshot).plan.actions)


@pytest.mark.parametrize("kind", ["head", "worker"])
def test_a_pod_whose_node_is_lost_is_removed(kind: str) -> None:
    scenario = stuck(kind)
    [pod] = scenario.heads() if kind == "head" else scenario.workers()
    found = [one for one in actions(seen_by(scenario, LOST)) if isinstance(one, Delete)]
    [removal] = found
    assert (removal.cause, removal.grace_seconds) == (Cause.POD_LOST, 0)
    assert (removal.key.name, removal.uid) == (pod["metadata"]["name"], pod["metadata"]["uid"])


def test_the_event_says_why() -> None:
    [removal] = [one for one in actions(seen_by(stuck(), LOST)) if isinstance(one, Delete)]
    [event] = action_events(Outcome((Result(removal, removal.key),)))
    assert (event.type, event.reason) == ("Warning", "DeletedPod")
    assert "Node n1 no longer exists" in event.note


def test_a_head_on_a_node_that_may_only_be_cut_off_is_waited_for() -> None:
    """Its containers may run on: a second head would split the cluster."""
    scenario = stuck(for_=timedelta(hours=3))
    snapshot = seen_by(scenario)
    assert not [one for one in actions(snapshot) if isinstance(one, Create | Delete)]
    blocked = blocked_condition(snapshot, Outcome(), pods_ready=False)
    assert blocked is not None
    assert blocked.reason == "StuckTerminating"
    assert "delete the Node or taint it" in blocked.message


def test_a_pod_has_its_time_to_go_by_itself() -> None:
    scenario = stuck(for_=timedelta(seconds=20))
    assert actions(seen_by(scenario, LOST)) == []


def test_a_head_whose_containers_have_ended_is_removed_wherever_its_node_is() -> None:
    scenario = stuck()
    set_failed(scenario.heads()[0], scenario.now)
    [removal] = [one for one in actions(seen_by(scenario)) if isinstance(one, Delete)]
    assert (removal.cause, removal.why) == (Cause.POD_LOST, "its containers have ended")


def test_a_head_that_only_a_finalizer_keeps_is_replaced_under_another_name() -> None:
    scenario = stuck()
    [pod] = scenario.heads()
    pod["metadata"]["finalizers"] = [FINALIZER]
    snapshot = seen_by(scenario, LOST)
    [creation] = actions(snapshot)
    assert creation.cause is Cause.NO_HEAD
    assert creation.key.name != pod["metadata"]["name"]
    scenario.apply(creation)
    set_running(scenario.objects[PODS, creation.key.name])
    snapshot = seen_by(scenario, LOST)
    assert actions(snapshot) == []
    assert all_pods_ready(snapshot)
    blocked = blocked_condition(snapshot, Outcome(), pods_ready=True)
    assert blocked is not None
    assert FINALIZER in blocked.message


def test_it_is_replaced_only_when_the_status_names_it() -> None:
    """Else its successor would get the name that it still holds."""
    scenario = Scenario(decode(ray_cluster(groups=[])))
    scenario.reconcile(report=False)
    [pod] = scenario.heads()
    set_running(pod)
    pod["metadata"] |= {"deletionTimestamp": format_time(scenario.now), "finalizers": [FINALIZER]}
    scenario.now += timedelta(minutes=1)
    assert actions(seen_by(scenario, LOST)) == []
    scenario.report(seen_by(scenario, LOST), Outcome())
    [creation] = actions(seen_by(scenario, LOST))
    assert creation.key.name != pod["metadata"]["name"]


def test_a_deletion_that_waits_for_its_head_is_not_held_up_by_a_lost_node() -> None:
    redis: dict[str, Any] = {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}
    scenario = Scenario(decode(ray_cluster(**redis)))
    scenario.settle()
    scenario.cluster = decode(
        ray_cluster(**redis),
        deletionTimestamp=format_time(scenario.now),
        finalizers=list(scenario.cluster.metadata.finalizers),
    )
    for one in (*scenario.heads(), *scenario.workers()):
        one["metadata"]["deletionTimestamp"] = format_time(scenario.now)
    scenario.now += timedelta(minutes=1)
    assert [one.cause for one in actions(seen_by(scenario, LOST))] == [Cause.POD_LOST] * 2
