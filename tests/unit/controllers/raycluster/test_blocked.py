"""`Blocked`: which Pod, which container, and why; for heads and workers alike (C29)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from manta.api.conditions import find
from manta.api.meta import Condition
from manta.api.times import format_time
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.warnings import warnings
from manta.reconcile.actions import Create
from support.raycluster import group, ray_cluster
from support.raycluster_world import World, decode, denied, set_failed, set_running


def blocked(world: World) -> Condition | None:
    return find(world.cluster.status.conditions, "Blocked")


def message(world: World) -> str:
    found = blocked(world)
    assert found is not None
    return found.message


WAITS = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "ErrImageNeverPull",
]


@pytest.mark.parametrize("reason", WAITS)
@pytest.mark.parametrize("node", ["head", "worker"])
@pytest.mark.parametrize("kind", ["containerStatuses", "initContainerStatuses"])
def test_c29_a_waiting_container_is_named_at_once(reason: str, node: str, kind: str) -> None:
    world = World(decode(ray_cluster()))
    world.round()
    pod = (world.heads() if node == "head" else world.workers())[0]
    waiting = {"reason": reason, "message": "the kubelet says so"}
    pod["status"] = {kind: [{"name": "ray-x", "state": {"waiting": waiting}}]}
    world.round()
    text = message(world)
    for part in (reason, "ray-x", pod["metadata"]["name"], "the kubelet says so"):
        assert part in text
    provisioned = find(world.cluster.status.conditions, "RayClusterProvisioned")
    assert provisioned is not None
    assert text in provisioned.message


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_container_that_only_needs_time_blocks_nothing(reason: str) -> None:
    world = World(decode(ray_cluster()))
    world.round()
    state = {"waiting": {"reason": reason}}
    world.heads()[0]["status"] = {"containerStatuses": [{"name": "ray", "state": state}]}
    world.round()
    assert blocked(world) is None


def test_a_pod_that_cannot_be_scheduled_is_named() -> None:
    world = World(decode(ray_cluster()))
    world.round()
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
    }
    [worker] = world.workers()
    worker["status"] = {"phase": "Pending", "conditions": [unschedulable]}
    world.round()
    assert "Insufficient cpu" in message(world)
    assert worker["metadata"]["name"] in message(world)


def test_a_gated_pod_waits_for_its_queue_and_is_no_trouble() -> None:
    world = World(decode(ray_cluster()))
    world.round()
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    world.heads()[0]["status"] = {"phase": "Pending", "conditions": [gated]}
    world.round()
    assert blocked(world) is None


def test_a_crash_loop_tells_the_last_exit_code() -> None:
    world = World(decode(ray_cluster(groups=[])))
    world.round()
    status = {
        "name": "ray",
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
    }
    world.heads()[0]["status"] = {"phase": "Running", "containerStatuses": [status]}
    world.round()
    assert "last exit code 137 (OOMKilled)" in message(world)


def test_trouble_is_told_until_the_cluster_is_whole() -> None:
    world = World(decode(ray_cluster()))
    world.round()
    [worker] = world.workers()
    state = {"waiting": {"reason": "ErrImagePull"}}
    worker["status"] = {"containerStatuses": [{"name": "ray", "state": state}]}
    world.round()
    since = blocked(world)
    worker["status"] = {"phase": "Pending"}
    world.now += timedelta(seconds=5)
    world.round()
    assert blocked(world) == since
    for pod in world.pods.values():
        set_running(pod)
    world.round()
    assert blocked(world) is None


def test_how_many_more_are_held_up_is_counted() -> None:
    world = World(decode(ray_cluster(groups=[group(replicas=3)])))
    world.round()
    for pod in world.workers():
        state = {"waiting": {"reason": "ErrImagePull"}}
        pod["status"] = {"containerStatuses": [{"name": "ray", "state": state}]}
    world.round()
    assert "and 2 more" in message(world)


def test_a_pod_that_does_not_go_is_named_with_its_node() -> None:
    world = World(decode(ray_cluster()))
    world.settle()
    [head] = world.heads()
    head["metadata"]["deletionTimestamp"] = format_time(world.now)
    head["spec"]["nodeName"] = "lost-node"
    world.now += timedelta(seconds=61)
    world.round()
    assert "lost-node" in message(world)


def test_c25_a_webhooks_refusal_is_told_in_its_own_words() -> None:
    world = World(decode(ray_cluster()))
    world.round(denied('admission webhook "x" denied the request: no latest tags'))
    assert "no latest tags" in message(world)


# ── C23: Pods that fail at once ──────────────────────────────────────────────────────────


def fail_for(world: World, minutes: int, kind: str, *, jump: bool = True) -> int:
    """Every Pod of a kind fails a second after it was made; counts how many were made."""
    end = world.now + timedelta(minutes=minutes)
    while world.now < end:
        wait = world.round().wait
        if jump and wait and wait.retry_in:
            world.now += wait.retry_in  # nothing happens before that
        world.bury()
        for pod in world.heads() if kind == "head" else world.workers():
            if "status" not in pod:
                set_failed(pod, world.now, container="init-42")
        world.now += timedelta(seconds=1)
    cause = Cause.NO_HEAD if kind == "head" else Cause.SCALE_UP
    return sum(isinstance(one, Create) and one.cause == cause for one in world.log)


@pytest.mark.parametrize("kind", ["head", "worker"])
def test_c23_pods_that_fail_at_once_are_replaced_ever_more_slowly(kind: str) -> None:
    world = World(decode(ray_cluster()))
    made = fail_for(world, minutes=10, kind=kind)
    assert 4 <= made <= 10
    assert "container init-42 exited with code 42" in message(world)


def test_c23_the_pause_never_exceeds_five_minutes() -> None:
    world = World(decode(ray_cluster()))
    fail_for(world, minutes=60, kind="worker")
    before = len(world.log)
    fail_for(world, minutes=11, kind="worker")
    assert len(world.log) - before >= 4  # at least two deletions and two creations


def test_c23_a_restart_does_not_forget_the_pause() -> None:
    world = World(decode(ray_cluster()))
    fail_for(world, minutes=3, kind="worker", jump=False)
    again = World(world.cluster, objects=world.objects, now=world.now)
    assert again.plan().actions == world.plan().actions
    assert again.plan().wait == world.plan().wait
    assert again.plan().wait is not None


def test_c23_pods_that_are_ready_for_a_moment_before_they_fail_are_slowed_down_too() -> None:
    world = World(decode(ray_cluster()))
    end = world.now + timedelta(minutes=10)
    while world.now < end:
        wait = world.round().wait
        if wait and wait.retry_in:
            world.now += wait.retry_in
        world.bury()
        for pod in world.pods.values():
            is_new = "status" not in pod
            if not is_new and pod in world.workers() and pod["status"]["phase"] == "Running":
                set_failed(pod, world.now)
            elif is_new:
                set_running(pod, since=format_time(world.now))
        world.now += timedelta(seconds=3)
    made = sum(isinstance(one, Create) and one.cause == Cause.SCALE_UP for one in world.log)
    assert 4 <= made <= 12


def test_c23_a_minute_of_readiness_ends_the_trouble() -> None:
    world = World(decode(ray_cluster()))
    fail_for(world, minutes=2, kind="worker")
    world.now += timedelta(minutes=5)
    world.round()
    world.bury()
    world.round()
    for pod in world.pods.values():
        set_running(pod, since=format_time(world.now))
    world.round()
    assert blocked(world) is not None
    assert world.cluster.status.state == "ready"
    world.now += timedelta(seconds=60)
    world.round()
    assert blocked(world) is None


def test_c23_the_first_failure_is_replaced_at_once() -> None:
    world = World(decode(ray_cluster()))
    world.settle()
    set_failed(world.workers()[0], world.now)
    assert [one.cause for one in world.plan().actions] == [Cause.UNHEALTHY_WORKER]


def test_c23_a_pod_that_lived_long_is_replaced_at_once_even_in_trouble() -> None:
    world = World(decode(ray_cluster(groups=[group("a"), group("b")])))
    fail_for_a = [one for one in world.round().actions if isinstance(one, Create)]
    assert fail_for_a
    state = {"waiting": {"reason": "ErrImagePull"}}
    world.workers("b")[0]["status"] = {"containerStatuses": [{"name": "ray", "state": state}]}
    world.round()
    late = world.workers("a")[0]
    late["metadata"]["creationTimestamp"] = format_time(world.now + timedelta(seconds=1))
    world.now += timedelta(minutes=10)
    set_failed(late, world.now)
    assert [one.cause for one in world.plan().actions] == [Cause.UNHEALTHY_WORKER]


# ── warnings ─────────────────────────────────────────────────────────────────────────────


def test_c13_an_invalid_cluster_is_told_by_event_and_condition_and_touched_by_nothing() -> None:
    world = World(decode(ray_cluster(groups=[group("a"), group("a")])))
    for _ in range(5):
        assert world.round().actions == ()
        world.now += timedelta(seconds=10)
    assert world.status_writes == 1
    found = blocked(world)
    assert found is not None
    assert found.reason == "InvalidRayClusterSpec"
    assert "more than one worker group" in found.message
    [event] = warnings(world.seen())
    assert (event.type, event.reason, event.action) == (
        "Warning",
        "InvalidRayClusterSpec",
        "Validate",
    )


def test_an_invalid_change_leaves_a_running_cluster_running() -> None:
    world = World(decode(ray_cluster()))
    world.settle()
    world.set_spec(ray_cluster(groups=[group("a"), group("a")]))
    assert world.round().actions == ()
    assert world.cluster.status.state == "ready"
    world.set_spec(ray_cluster())
    world.settle()
    assert blocked(world) is None
    assert len(world.pods) == 2


def test_c12_replicas_beyond_the_bounds_are_warned_of_once() -> None:
    world = World(decode(ray_cluster(groups=[group(replicas=9, maxReplicas=4)])))
    world.settle()
    assert len(world.workers()) == 4
    [event] = warnings(world.seen())
    assert "held between" in event.note
    writes = world.status_writes
    world.round()
    assert world.status_writes == writes


def test_a_bad_name_is_a_matter_of_metadata() -> None:
    world = World(decode(ray_cluster(name="x" * 60)))
    [event] = warnings(world.seen())
    assert event.reason == "InvalidRayClusterMetadata"


def test_a_bad_annotation_and_an_advice_are_a_matter_of_the_spec() -> None:
    """R15: KubeRay's reason for both."""
    annotated = World(decode(ray_cluster(annotations={"manta.ray.io/drain-seconds": "soon"})))
    [event] = warnings(annotated.seen())
    assert event.reason == "InvalidRayClusterSpec"
    advised = World(decode(ray_cluster(groups=[group(replicas=9, maxReplicas=4)])))
    [event] = warnings(advised.seen())
    assert (event.type, event.reason) == ("Warning", "InvalidRayClusterSpec")
