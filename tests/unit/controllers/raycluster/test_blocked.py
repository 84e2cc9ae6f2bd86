"""`Blocked`: which Pod, which container, and why; for heads and workers alike (C29)."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from manta.api.conditions import find
from manta.api.meta import Condition
from manta.api.ray.cluster import RayClusterStatus
from manta.api.resources import PODS
from manta.api.times import format_time
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.status_events import spec_warnings, status_events
from manta.reconcile.actions import Create
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import Scenario, decode, denied, set_failed, set_running


def blocked(scenario: Scenario) -> Condition | None:
    return find(scenario.cluster.status.conditions, "Blocked")


def message(scenario: Scenario) -> str:
    found = blocked(scenario)
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
    scenario = Scenario(decode(ray_cluster()))
    scenario.reconcile()
    pod = (scenario.heads() if node == "head" else scenario.workers())[0]
    waiting = {"reason": reason, "message": "the kubelet says so"}
    pod["status"] = {kind: [{"name": "ray-x", "state": {"waiting": waiting}}]}
    scenario.reconcile()
    text = message(scenario)
    for part in (reason, "ray-x", pod["metadata"]["name"], "the kubelet says so"):
        assert part in text
    provisioned = find(scenario.cluster.status.conditions, "RayClusterProvisioned")
    assert provisioned is not None
    assert text in provisioned.message


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_container_that_only_needs_time_blocks_nothing(reason: str) -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.reconcile()
    state = {"waiting": {"reason": reason}}
    scenario.heads()[0]["status"] = {"containerStatuses": [{"name": "ray", "state": state}]}
    scenario.reconcile()
    assert blocked(scenario) is None


@pytest.mark.parametrize("node", ["head", "worker"])
@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_container_that_needs_too_much_time_is_named(reason: str, node: str) -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.reconcile()
    for pod in scenario.pods.values():
        set_running(pod)
    pod = (scenario.heads() if node == "head" else scenario.workers())[0]
    state = {"waiting": {"reason": reason}}
    pod["status"] = {"containerStatuses": [{"name": "ray", "state": state}]}
    scenario.now += timedelta(minutes=5)
    scenario.reconcile()
    found = blocked(scenario)
    assert found is not None
    assert found.reason == reason
    assert f"container ray of Pod {pod['metadata']['name']}" in found.message
    writes = scenario.status_writes
    scenario.now += timedelta(hours=1)
    scenario.reconcile()
    assert scenario.status_writes == writes


@pytest.mark.parametrize("node", ["head", "worker"])
def test_a_container_that_runs_and_does_not_become_ready_is_named(node: str) -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.reconcile()
    for pod in scenario.pods.values():
        set_running(pod)
    pod = (scenario.heads() if node == "head" else scenario.workers())[0]
    set_running(pod, ready=False, since=format_time(scenario.now))
    scenario.now += timedelta(minutes=4)
    scenario.reconcile()
    assert blocked(scenario) is None
    scenario.now += timedelta(minutes=1)
    scenario.reconcile()
    assert f"container ray of Pod {pod['metadata']['name']} runs" in message(scenario)
    writes = scenario.status_writes
    scenario.now += timedelta(hours=1)
    scenario.reconcile()
    assert scenario.status_writes == writes
    set_running(pod)
    scenario.reconcile()
    assert blocked(scenario) is None


def test_a_pod_whose_node_is_silent_is_named() -> None:
    """The containers were ready when the node was heard of last."""
    scenario = Scenario(decode(ray_cluster()))
    scenario.reconcile()
    for pod in scenario.pods.values():
        set_running(pod)
    [worker] = scenario.workers()
    worker["status"]["conditions"][0] |= {
        "status": "False",
        "lastTransitionTime": format_time(scenario.now),
    }
    scenario.now += timedelta(minutes=5)
    scenario.reconcile()
    assert message(scenario).startswith(f"Pod {worker['metadata']['name']} runs")
    assert message(scenario).endswith("node n1")


def test_a_worker_of_a_service_may_never_become_ready() -> None:
    """Without a Serve replica it takes no requests, and that may be all that is wanted."""
    labels = {"ray.io/originated-from-crd": "RayService"}
    scenario = Scenario(decode(ray_cluster(labels=labels)))
    scenario.reconcile()
    set_running(scenario.heads()[0])
    set_running(scenario.workers()[0], ready=False, since=format_time(scenario.now))
    scenario.now += timedelta(hours=1)
    scenario.reconcile()
    assert blocked(scenario) is None


def test_a_head_that_must_not_be_restarted_is_missed() -> None:
    note = {"ray.io/disable-provisioned-head-restart": "true"}
    scenario = Scenario(decode(ray_cluster(annotations=note)))
    scenario.reconcile()
    for pod in scenario.pods.values():
        set_running(pod)
    scenario.reconcile()
    del scenario.objects[PODS, scenario.heads()[0]["metadata"]["name"]]
    scenario.reconcile()
    assert "the head is gone" in message(scenario)
    assert "disable-provisioned-head-restart" in message(scenario)


def test_a_pod_that_cannot_be_scheduled_is_named() -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.reconcile()
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
    }
    [worker] = scenario.workers()
    worker["status"] = {"phase": "Pending", "conditions": [unschedulable]}
    scenario.reconcile()
    assert "Insufficient cpu" in message(scenario)
    assert worker["metadata"]["name"] in message(scenario)


def test_a_gated_pod_waits_for_its_queue_and_is_no_trouble() -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.reconcile()
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    scenario.heads()[0]["status"] = {"phase": "Pending", "conditions": [gated]}
    scenario.reconcile()
    assert blocked(scenario) is None


def test_a_crash_loop_tells_the_last_exit_code() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[])))
    scenario.reconcile()
    status = {
        "name": "ray",
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
    }
    scenario.heads()[0]["status"] = {"phase": "Running", "containerStatuses": [status]}
    scenario.reconcile()
    assert "last exit code 137 (OOMKilled)" in message(scenario)


@pytest.mark.parametrize("reason", ["ErrImagePull", "InvalidImageName"])
def test_a_problem_is_reported_until_all_pods_are_ready(reason: str) -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.reconcile()
    [worker] = scenario.workers()
    state = {"waiting": {"reason": reason}}
    worker["status"] = {"containerStatuses": [{"name": "ray", "state": state}]}
    scenario.reconcile()
    since = blocked(scenario)
    worker["status"] = {"phase": "Pending"}
    scenario.now += timedelta(seconds=5)
    scenario.reconcile()
    assert blocked(scenario) == since
    for pod in scenario.pods.values():
        set_running(pod)
    scenario.reconcile()
    assert blocked(scenario) is None


def test_how_many_more_are_held_up_is_counted() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=3)])))
    scenario.reconcile()
    for pod in scenario.workers():
        state = {"waiting": {"reason": "ErrImagePull"}}
        pod["status"] = {"containerStatuses": [{"name": "ray", "state": state}]}
    scenario.reconcile()
    assert "and 2 more" in message(scenario)


def test_a_pod_that_does_not_go_is_named_with_its_node() -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.settle()
    [head] = scenario.heads()
    head["metadata"]["deletionTimestamp"] = format_time(scenario.now)
    head["spec"]["nodeName"] = "lost-node"
    scenario.now += timedelta(seconds=61)
    scenario.reconcile()
    assert "lost-node" in message(scenario)


def test_c25_a_webhooks_refusal_is_reported_in_its_own_words() -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.reconcile(denied('admission webhook "x" denied the request: no latest tags'))
    assert "no latest tags" in message(scenario)


# ── C23: Pods that fail at once ──────────────────────────────────────────────────────────


def fail_for(scenario: Scenario, minutes: int, kind: str, *, jump: bool = True) -> int:
    """Every Pod of a kind fails a second after it was made; counts how many were made."""
    end = scenario.now + timedelta(minutes=minutes)
    while scenario.now < end:
        wait = scenario.reconcile().wait
        if jump and wait and wait.retry_in:
            scenario.now += wait.retry_in  # nothing happens before that
        scenario.remove_deleted()
        for pod in scenario.heads() if kind == "head" else scenario.workers():
            if "status" not in pod:
                set_failed(pod, scenario.now, container="init-42")
        scenario.now += timedelta(seconds=1)
    cause = Cause.NO_HEAD if kind == "head" else Cause.SCALE_UP
    return sum(isinstance(one, Create) and one.cause == cause for one in scenario.log)


@pytest.mark.parametrize("kind", ["head", "worker"])
def test_c23_pods_that_fail_at_once_are_replaced_ever_more_slowly(kind: str) -> None:
    scenario = Scenario(decode(ray_cluster()))
    made = fail_for(scenario, minutes=10, kind=kind)
    assert 4 <= made <= 10
    assert "container init-42 exited with code 42" in message(scenario)


def test_c23_the_pause_never_exceeds_five_minutes() -> None:
    scenario = Scenario(decode(ray_cluster()))
    fail_for(scenario, minutes=60, kind="worker")
    before = len(scenario.log)
    fail_for(scenario, minutes=11, kind="worker")
    assert len(scenario.log) - before >= 4  # at least two deletions and two creations


def test_c23_a_restart_does_not_forget_the_pause() -> None:
    scenario = Scenario(decode(ray_cluster()))
    fail_for(scenario, minutes=3, kind="worker", jump=False)
    again = Scenario(scenario.cluster, objects=scenario.objects, now=scenario.now)
    assert again.plan().actions == scenario.plan().actions
    assert again.plan().wait == scenario.plan().wait
    assert again.plan().wait is not None


def test_c23_pods_that_are_ready_for_a_moment_before_they_fail_are_slowed_down_too() -> None:
    scenario = Scenario(decode(ray_cluster()))
    end = scenario.now + timedelta(minutes=10)
    while scenario.now < end:
        wait = scenario.reconcile().wait
        if wait and wait.retry_in:
            scenario.now += wait.retry_in
        scenario.remove_deleted()
        for pod in scenario.pods.values():
            is_new = "status" not in pod
            if not is_new and pod in scenario.workers() and pod["status"]["phase"] == "Running":
                set_failed(pod, scenario.now)
            elif is_new:
                set_running(pod, since=format_time(scenario.now))
        scenario.now += timedelta(seconds=3)
    made = sum(isinstance(one, Create) and one.cause == Cause.SCALE_UP for one in scenario.log)
    assert 4 <= made <= 12


def test_c23_a_minute_of_readiness_ends_the_trouble() -> None:
    scenario = Scenario(decode(ray_cluster()))
    fail_for(scenario, minutes=2, kind="worker")
    scenario.now += timedelta(minutes=5)
    scenario.reconcile()
    scenario.remove_deleted()
    scenario.reconcile()
    for pod in scenario.pods.values():
        set_running(pod, since=format_time(scenario.now))
    scenario.reconcile()
    assert blocked(scenario) is not None
    assert scenario.cluster.status.state == "ready"
    scenario.now += timedelta(seconds=60)
    scenario.reconcile()
    assert blocked(scenario) is None


def test_c23_the_first_failure_is_replaced_at_once() -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.settle()
    set_failed(scenario.workers()[0], scenario.now)
    assert [one.cause for one in scenario.plan().actions] == [Cause.UNHEALTHY_WORKER]


@pytest.mark.parametrize("seconds", [300, 600])
def test_c23_a_pod_that_lived_long_is_replaced_at_once_even_in_trouble(seconds: int) -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group("a"), group("b")])))
    fail_for_a = [one for one in scenario.reconcile().actions if isinstance(one, Create)]
    assert fail_for_a
    state = {"waiting": {"reason": "ErrImagePull"}}
    scenario.workers("b")[0]["status"] = {"containerStatuses": [{"name": "ray", "state": state}]}
    scenario.reconcile()
    late = scenario.workers("a")[0]
    late["metadata"]["creationTimestamp"] = format_time(scenario.now + timedelta(seconds=1))
    scenario.now += timedelta(seconds=1 + seconds)
    set_failed(late, scenario.now)
    assert [one.cause for one in scenario.plan().actions] == [Cause.UNHEALTHY_WORKER]


# ── warnings ─────────────────────────────────────────────────────────────────────────────


def test_c13_an_invalid_cluster_is_reported_by_event_and_condition_and_touched_by_nothing() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group("a"), group("a")])))
    for _ in range(5):
        assert scenario.reconcile().actions == ()
        scenario.now += timedelta(seconds=10)
    assert scenario.status_writes == 1
    found = blocked(scenario)
    assert found is not None
    assert found.reason == "InvalidRayClusterSpec"
    assert "more than one worker group" in found.message
    [event] = spec_warnings(scenario.snapshot())
    assert (event.type, event.reason, event.action) == (
        "Warning",
        "InvalidRayClusterSpec",
        "Validate",
    )


def test_an_invalid_change_leaves_a_running_cluster_running() -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.settle()
    scenario.set_spec(ray_cluster(groups=[group("a"), group("a")]))
    assert scenario.reconcile().actions == ()
    assert scenario.cluster.status.state == "ready"
    set_running(scenario.workers()[0], ready=False)
    scenario.set_spec(ray_cluster())
    for _ in range(2):
        scenario.reconcile()
        scenario.now += timedelta(seconds=3)
    assert blocked(scenario) is None, "it is corrected, although a Pod is not ready"
    assert len(scenario.pods) == 2


def test_c12_replicas_beyond_the_bounds_are_warned_of_once() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=9, maxReplicas=4)])))
    scenario.settle()
    assert len(scenario.workers()) == 4
    [event] = spec_warnings(scenario.snapshot())
    assert "held between" in event.note
    writes = scenario.status_writes
    scenario.reconcile()
    assert scenario.status_writes == writes


def test_a_bad_name_is_a_matter_of_metadata() -> None:
    scenario = Scenario(decode(ray_cluster(name="x" * 60)))
    [event] = spec_warnings(scenario.snapshot())
    assert event.reason == "InvalidRayClusterMetadata"


def test_a_bad_annotation_and_an_advice_are_a_matter_of_the_spec() -> None:
    """R15: KubeRay's reason for both."""
    annotated = Scenario(decode(ray_cluster(annotations={"manta.ray.io/drain-seconds": "soon"})))
    [event] = spec_warnings(annotated.snapshot())
    assert event.reason == "InvalidRayClusterSpec"
    advised = Scenario(decode(ray_cluster(groups=[group(replicas=9, maxReplicas=4)])))
    [event] = spec_warnings(advised.snapshot())
    assert (event.type, event.reason) == ("Warning", "InvalidRayClusterSpec")


@pytest.mark.parametrize(
    ("known", "is_told"), [("", True), ("another problem", True), ("exceeded quota", False)]
)
def test_c33_a_blockage_repeats_the_warnings_only_when_it_is_new(known: str, is_told: bool) -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=9, maxReplicas=4)])))
    scenario.settle()

    def with_problem(message: str) -> RayClusterStatus:
        why = Condition(type="Blocked", status="True", reason="Forbidden", message=message)
        return msgspec.structs.replace(
            scenario.cluster.status, conditions=(why,) if message else ()
        )

    before, after = with_problem(known), with_problem("exceeded quota")
    scenario.cluster = msgspec.structs.replace(scenario.cluster, status=before)
    assert bool(status_events(scenario.snapshot(), after)) is is_told
