"""When the next step of a canary waits, and why; when it is rolled back; what the condition says."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from manta.api.core import Service, ServiceSpec
from manta.api.meta import ObjectMeta
from manta.api.ray import names
from manta.api.times import format_time
from manta.controllers.rayservice.canary_messages import canary_message, uncounted_gpus
from manta.controllers.rayservice.facts.canary import (
    Progress,
    canary_obstacle,
    chosen_pods,
    hold,
    is_promoted,
    is_shared,
    next_weight,
    pause_left,
    pods_behind_service,
    progress,
    worker_groups,
)
from manta.controllers.rayservice.facts.canary_end import rollback_reason
from manta.controllers.rayservice.planners.canary_workers import shrink_active
from manta.controllers.rayservice.snapshot import NotQueried, ServiceSnapshot
from manta.manifests.serve_services import shared_selector
from manta.reconcile.actions import Patch
from manta.rules.canary_analysis import Figures, Reading
from support.canary import canary, gpu_config
from support.raycluster import group
from support.rayservice_objects import (
    NOW,
    a_cluster,
    a_pod,
    a_view,
    cluster_config,
    listening,
    upgrading,
    with_submission,
)

ANALYSIS = {"maxErrorPercent": 2, "minRequests": 10}
GOOD = Reading(new=Figures(requests=100), old=Figures(requests=100))
BAD = Reading(new=Figures(requests=100, errors=50), old=Figures(requests=100))


def a_canary(
    *, weight: int = 25, reached: float | None = 0, annotations: Any = None, **facts: Any
) -> ServiceSnapshot:
    """A canary of two steps (25 and 50 %), whose step was reached `reached` seconds ago."""
    options = facts.pop("options", {})
    spec = {"upgradeStrategy": canary(**options), "annotations": annotations or {}}
    side: dict[str, Any] = {"rayClusterName": "demo-b", "trafficRoutedPercent": weight}
    if reached is not None:
        side["lastTrafficMigratedTime"] = format_time(NOW - timedelta(seconds=reached))
    return upgrading(spec=spec, status={"pendingServiceStatus": side}, **facts)


def now_of(snapshot: ServiceSnapshot) -> Progress:
    return progress(snapshot)


# ── steps ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("weight", "number", "following", "is_last"),
    [(25, 1, 50, False), (50, 2, 100, False), (100, 3, 100, True)],
)
def test_the_recorded_weight_names_the_step(
    weight: int, number: int, following: int, is_last: bool
) -> None:
    one = a_canary(weight=weight)
    now = now_of(one)
    assert (now.number, now.of, now.weight, now.is_last) == (number, 3, weight, is_last)
    assert next_weight(one, now) == following


def test_a_step_that_is_not_reached_does_not_pause() -> None:
    one = a_canary(reached=None)
    assert now_of(one).reached_at is None
    assert pause_left(one, now_of(one)) == timedelta(0)
    assert hold(one, now_of(one)) == ""


# ── what the next step waits for ─────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"reached": 3}, "the next step begins at"),
        ({"reached": 60}, ""),
        ({"reached": 60, "annotations": {names.ANNOTATION_CANARY_PAUSE: "true"}}, "it is paused"),
        ({"reached": 60, "options": {"automatic": False}}, "`manta upgrade promote demo`"),
        ({"reached": 60, "options": {"analysis": ANALYSIS}}, "waiting for the first figures"),
        ({"reached": 60, "options": {"analysis": ANALYSIS}, "canary_reading": GOOD}, ""),
    ],
    ids=["pauses", "passes", "paused by hand", "not automatic", "no figures", "good figures"],
)
def test_the_reason_of_a_hold(facts: dict[str, Any], expected: str) -> None:
    one = a_canary(**facts)
    reason = hold(one, now_of(one))
    assert reason.startswith(expected) if expected else reason == ""


@pytest.mark.parametrize(
    ("text", "promoted"),
    [
        ("demo-b/1", True),
        ("demo-b/2", True),
        ("demo-b/all", True),
        ("demo-b/0", False),
        ("demo-b/x", False),
        ("demo-a/1", False),
        ("", False),
    ],
)
def test_only_a_promotion_of_this_cluster_and_step_counts(text: str, promoted: bool) -> None:
    one = a_canary(annotations={names.ANNOTATION_CANARY_PROMOTE: text})
    assert is_promoted(one, 1) is promoted
    assert (hold(one, now_of(one)) == "") is promoted


def test_a_pause_has_precedence_over_a_promotion() -> None:
    both = {names.ANNOTATION_CANARY_PROMOTE: "demo-b/all", names.ANNOTATION_CANARY_PAUSE: "demo-b"}
    one = a_canary(reached=60, annotations=both)
    assert hold(one, now_of(one)).startswith("it is paused")


# ── rollback ─────────────────────────────────────────────────────────────────────────────


def test_broken_limits_and_an_abort_of_this_cluster_roll_back() -> None:
    limited: dict[str, Any] = {"options": {"analysis": ANALYSIS}}
    assert "are errors (limit 2 %)" in rollback_reason(a_canary(**limited, canary_reading=BAD))
    assert rollback_reason(a_canary(**limited, canary_reading=GOOD)) == ""
    assert rollback_reason(a_canary(**limited)) == ""  # no figures hold, they do not roll back
    assert rollback_reason(a_canary(canary_reading=BAD)) == ""  # nothing is limited
    aborted = a_canary(annotations={names.ANNOTATION_CANARY_ABORT: "demo-b"})
    assert rollback_reason(aborted) == "it was aborted by hand"
    assert rollback_reason(a_canary(annotations={names.ANNOTATION_CANARY_ABORT: "demo-a"})) == ""


# ── obstacles and messages ───────────────────────────────────────────────────────────────


def with_port(name: str, port: int) -> Any:
    config = cluster_config("rayproject/ray:2.61.0")
    ray = config["headGroupSpec"]["template"]["spec"]["containers"][0]
    ray["ports"] = [{"name": "serve", "containerPort": port}]
    return a_view(name, a_cluster(name, rayClusterConfig=config), head_pod=listening(port))


def test_clusters_with_different_serve_ports_cannot_share_a_service() -> None:
    one = a_canary(active=with_port("demo-a", 8000), pending=with_port("demo-b", 9000))
    assert "the serve ports of RayCluster demo-a and demo-b differ" in canary_obstacle(one)
    assert canary_obstacle(replace(one, pending=None)) == "RayCluster demo-b is about to be created"


def message(one: ServiceSnapshot) -> str:
    return canary_message(one, one.status)


def test_the_message_follows_the_canary() -> None:
    one = a_canary(reached=3)
    assert message(replace(one, pending=None)) == "RayCluster demo-b is about to be created"
    assert message(replace(one, active=None)) == "RayCluster demo-b will serve as soon as it can"
    assert message(one).startswith(
        "step 1 of 3 (25 %): 0 of 2 Pods that take requests are new (0 %)"
    )


def growing(*, old: int, new: int, running: int, step: float | None = None) -> ServiceSnapshot:
    """A canary of four GPU workers. `old` and `new`: the replicas of each cluster; `running`: Pods of the new one."""
    full = {names.ANNOTATION_FULL_SIZE: "gpu=4//"}
    spec = {"upgradeStrategy": canary(), "rayClusterConfig": gpu_config()}
    views = {
        name: a_view(
            name, a_cluster(name, full, rayClusterConfig=gpu_config(workers=count)), pods=pods
        )
        for name, count, pods in (
            ("demo-a", old, tuple(gpu_worker(f"a{at}") for at in range(old))),
            (
                "demo-b",
                new,
                (a_pod("b-head", head=True), *(gpu_worker(f"b{at}") for at in range(running))),
            ),
        )
    }
    side: dict[str, Any] = {"rayClusterName": "demo-b", "trafficRoutedPercent": 25}
    if step is not None:
        side["lastTrafficMigratedTime"] = format_time(NOW - timedelta(seconds=step))
    one = upgrading(
        spec=spec,
        status={"pendingServiceStatus": side},
        active=views["demo-a"],
        pending=views["demo-b"],
    )
    return replace(one, pending=with_submission(one, views["demo-b"]))


def gpu_worker(name: str, *, takes_requests: bool = False) -> Any:
    pod = labelled(name, takes_requests=takes_requests)
    labels = {**pod.metadata.labels, names.LABEL_GROUP: "gpu"}
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels)
    )


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"old": 4, "new": 1, "running": 0}, "waiting for workers of group gpu of RayCluster demo-b"),
        ({"old": 5, "new": 0, "running": 0}, "waiting for room for group gpu: 5 older workers hold theirs"),
        ({"old": 4, "new": 1, "running": 1}, "waiting until Serve needs fewer workers of group gpu of RayCluster demo-a"),
        ({"old": 3, "new": 1, "running": 1}, "traffic moves"),
        ({"old": 3, "new": 1, "running": 1, "step": 60}, "next, RayCluster demo-b gets 50 %"),
    ],
    ids=["new workers", "room", "old workers", "traffic", "next step"],
)  # fmt: skip
def test_the_message_names_what_the_step_waits_for(facts: Any, expected: str) -> None:
    assert message(growing(**facts)).endswith(f"; {expected}")


RENAMED = "group accelerated is new, or has a new name: its GPUs are beside maxSurge"
LARGER = "a replica of group gpu needs 2 GPUs instead of 1: maxSurge counts workers"


@pytest.mark.parametrize(
    ("change", "expected"),
    [({}, ""), ({"groupName": "accelerated"}, RENAMED), ({"numOfHosts": 2}, LARGER)],
)
def test_gpus_that_the_surge_does_not_count_are_said(change: dict[str, Any], expected: str) -> None:
    config = gpu_config()
    config["workerGroupSpecs"][0].update(change)
    old = a_view("demo-a", a_cluster("demo-a", rayClusterConfig=gpu_config()))
    one = upgrading(spec={"upgradeStrategy": canary(), "rayClusterConfig": config}, active=old)
    said = uncounted_gpus(one)
    assert said.startswith(expected) if expected else said == ""
    assert uncounted_gpus(replace(one, active=None)) == ""


# ── workers ──────────────────────────────────────────────────────────────────────────────


def test_a_group_that_the_new_cluster_does_not_have_has_no_size_there() -> None:
    config = gpu_config()
    config["workerGroupSpecs"][0]["groupName"] = "dropped"
    old = a_view("demo-a", a_cluster("demo-a", rayClusterConfig=config))
    new = a_view("demo-b", a_cluster("demo-b", rayClusterConfig=gpu_config()))
    found = {one.name: one for one in worker_groups(a_canary(active=old, pending=new))}
    assert (found["dropped"].full_old, found["dropped"].full_new) == (4, 0)
    assert (found["gpu"].full_old, found["gpu"].full_new) == (0, 4)


def scaled_by_ray(image: str, **gpu: int) -> dict[str, Any]:
    """A config with an autoscaler, these bounds of its GPU workers, and a group that has none."""
    config = gpu_config(image) | {"enableInTreeAutoscaling": True}
    spare = group("spare", 0, minReplicas=0, maxReplicas=0)
    config["workerGroupSpecs"] = [config["workerGroupSpecs"][0] | gpu, spare]
    return config


@pytest.mark.parametrize(("least", "writes"), [(3, 0), (4, 1)])
def test_only_bounds_that_keep_the_autoscaler_from_shrinking_are_lowered(
    least: int, writes: int
) -> None:
    """While it takes its workers away, the same bounds would otherwise be written in every reconcile."""
    full = {names.ANNOTATION_FULL_SIZE: "gpu=4/4/4,spare=0/0/0"}
    kept = scaled_by_ray("rayproject/ray:2.60.0", minReplicas=least, maxReplicas=4)
    config = scaled_by_ray("rayproject/ray:2.61.0", minReplicas=0, maxReplicas=1)
    old = a_view(
        "demo-a",
        a_cluster("demo-a", full, rayClusterConfig=kept),
        pods=tuple(gpu_worker(f"a{at}") for at in range(4)),
        answer=NotQueried(),
    )
    new = a_view(
        "demo-b",
        a_cluster("demo-b", full, rayClusterConfig=config),
        pods=(gpu_worker("b1", takes_requests=True),),
    )
    spec = {"upgradeStrategy": canary(), "rayClusterConfig": config}
    side = {"rayClusterName": "demo-b", "trafficRoutedPercent": 25}
    one = upgrading(spec=spec, status={"pendingServiceStatus": side}, active=old, pending=new)
    one = shared(replace(one, pending=with_submission(one, new)))
    shrinking = shrink_active(one, old, worker_groups(one), 25)
    resized = [action.key.name for action in shrinking.plan.actions if isinstance(action, Patch)]
    assert resized == ["demo-a"] * writes


# ── Pods behind the Service ──────────────────────────────────────────────────────────────


def shared(one: ServiceSnapshot) -> ServiceSnapshot:
    """With a serve Service that selects Pods of both clusters."""
    spec = ServiceSpec(selector=shared_selector(one.service))
    return replace(
        one, serve_service=Service(metadata=ObjectMeta(name="demo-serve-svc"), spec=spec)
    )


def labelled(name: str, *, takes_requests: bool) -> Any:
    pod = a_pod(name)
    labels = {**pod.metadata.labels, **({names.LABEL_SERVING: "demo"} if takes_requests else {})}
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels)
    )


def test_pods_behind_a_service_of_one_cluster_are_all_old() -> None:
    one = a_canary()
    assert not is_shared(one)
    assert pods_behind_service(one) == (2, 0)
    assert pods_behind_service(replace(one, active=None)) == (0, 0)


def test_pods_behind_a_shared_service_are_those_with_the_label() -> None:
    old = a_view(
        "demo-a", pods=(labelled("a1", takes_requests=True), labelled("a2", takes_requests=False))
    )
    new = a_view("demo-b", pods=(labelled("b1", takes_requests=True),))
    one = shared(a_canary(active=old, pending=new))
    assert is_shared(one)
    assert pods_behind_service(one) == (1, 1)


def test_a_cluster_that_cannot_serve_gets_no_pod_behind_a_service_of_the_old_one() -> None:
    one = a_canary(active=with_port("demo-a", 8000), pending=with_port("demo-b", 9000))
    assert one.active is not None
    leaving = frozenset((one.active.pods[1].metadata.uid,))
    chosen = chosen_pods(one, worker_groups(one), 50, leaving)
    assert [pod.metadata.name for pod in chosen.old] == ["demo-a-head"]
    assert chosen.new == ()
    assert {pod.metadata.name for pod in chosen.others} == {
        "demo-b-head",
        "demo-b-worker",
        "demo-a-worker",
    }


def test_a_cluster_that_stops_serving_keeps_the_pods_that_it_has_behind_a_shared_service() -> None:
    old = with_port("demo-a", 8000)
    old = replace(
        old, pods=(labelled("a1", takes_requests=True), labelled("a2", takes_requests=True))
    )
    new = with_port("demo-b", 9000)
    new = replace(
        new, pods=(labelled("b1", takes_requests=True), labelled("b2", takes_requests=False))
    )
    one = shared(a_canary(active=old, pending=new))
    chosen = chosen_pods(one, worker_groups(one), 50, frozenset())
    assert [pod.metadata.name for pod in chosen.old] == ["a1", "a2"]
    assert [pod.metadata.name for pod in chosen.new] == ["b1"]
