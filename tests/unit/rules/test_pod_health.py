"""Ready, beyond repair, or held up: read off a Pod's status."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from manta.api.core import Pod
from manta.api.times import parse_time
from manta.rules.pod_health import (
    START_WITHIN,
    beyond_repair,
    blockage,
    ended_at,
    is_ready,
    is_running,
    slow_start,
    start_overdue_at,
    was_never_begun,
)


def pod(restart: str = "Always", **status: Any) -> Pod:
    body = {
        "metadata": {"name": "p"},
        "spec": {"restartPolicy": restart, "containers": [{"name": "ray"}, {"name": "side"}]},
        "status": status,
    }
    return msgspec.convert(body, Pod)


def ended(name: str = "ray", code: int = 1, **fields: Any) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": code, **fields}}}


READY = [{"type": "Ready", "status": "True"}]


def test_ready_needs_running_and_the_condition() -> None:
    assert is_ready(pod(phase="Running", conditions=READY))
    assert not is_ready(pod(phase="Running"))
    assert not is_ready(pod(phase="Pending", conditions=READY))
    assert is_running(pod(phase="Running"))


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("restart", ["Always", "Never", "OnFailure"])
def test_a_pod_that_has_ended_is_beyond_repair(phase: str, restart: str) -> None:
    assert phase in beyond_repair(pod(restart, phase=phase))


@pytest.mark.parametrize(
    ("restart", "lost"), [("Never", True), ("Always", False), ("OnFailure", False)]
)
def test_a_running_pod_without_its_ray_is_lost_only_if_it_never_restarts(
    restart: str, lost: bool
) -> None:
    assert bool(beyond_repair(pod(restart, phase="Running", containerStatuses=[ended()]))) is lost


def test_the_ray_container_is_found_by_name_whatever_the_order() -> None:
    statuses = [ended("side"), {"name": "ray", "state": {"running": {}}}]
    assert not beyond_repair(pod("Never", phase="Running", containerStatuses=statuses))
    assert beyond_repair(pod("Never", phase="Running", containerStatuses=[*statuses[:1], ended()]))


def test_the_reason_names_container_code_and_kubelet() -> None:
    failed = pod(phase="Failed", initContainerStatuses=[ended("prepare", 42, reason="OOMKilled")])
    assert "container prepare exited with code 42 (OOMKilled)" in beyond_repair(failed)
    assert "Evicted" in beyond_repair(pod(phase="Failed", reason="Evicted", message="disk"))


def test_the_end_is_the_last_end_of_a_container() -> None:
    times = ["2026-11-15T08:00:00Z", "2026-11-15T08:05:00Z"]
    statuses = [
        ended(name, finishedAt=time) for name, time in zip(("ray", "side"), times, strict=True)
    ]
    assert ended_at(pod(phase="Failed", containerStatuses=statuses)) == parse_time(times[1])
    assert ended_at(pod(phase="Failed")) is None


@pytest.mark.parametrize(
    ("status", "known_address", "never"),
    [
        ({}, "", True),
        ({"containerStatuses": [{"name": "ray", "state": {"waiting": {}}}]}, "", True),
        ({"containerStatuses": [{"name": "ray", "state": {"waiting": {}}}]}, "10.0.0.1", True),
        ({"containerStatuses": [ended()]}, "", False),
        ({"podIP": "10.0.0.1"}, "", False),
        ({}, "10.0.0.1", False),
    ],
)
def test_a_failed_pod_without_statuses_of_containers_ran_if_it_had_an_address(
    status: dict[str, Any], known_address: str, never: bool
) -> None:
    assert was_never_begun(pod(phase="Failed", **status), known_address) is never
    assert not was_never_begun(pod(phase="Running", **status), known_address)


def test_a_container_that_exited_cleanly_blocks_nothing() -> None:
    assert blockage(pod(phase="Pending", initContainerStatuses=[ended("prepare", 0)])) is None


def test_an_exited_container_is_named() -> None:
    found = blockage(pod(phase="Running", containerStatuses=[ended(code=137, reason="OOMKilled")]))
    assert found is not None
    assert found.reason == "OOMKilled"
    assert "container ray of Pod p exited with code 137" in found.message


def test_a_pod_without_containers_in_its_status_is_fine() -> None:
    assert blockage(pod()) is None
    assert beyond_repair(msgspec.convert({"status": {"phase": "Running"}}, Pod)) == ""


BOUND = "2026-01-01T12:00:00Z"
LATE = parse_time(BOUND) + START_WITHIN


def starting(*, init: Any = (), containers: Any = (), **status: Any) -> Pod:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": BOUND}
    found = pod(
        phase="Pending",
        conditions=[scheduled],
        initContainerStatuses=init,
        containerStatuses=containers,
        **status,
    )
    spec = msgspec.structs.replace(found.spec, node_name="n1")
    return msgspec.structs.replace(found, spec=spec)


def waiting(name: str, reason: str = "ContainerCreating", message: str = "") -> dict[str, Any]:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


def test_a_container_that_is_not_created_is_named_after_five_minutes() -> None:
    late = starting(containers=[waiting("ray")])
    assert slow_start(late, LATE - timedelta(seconds=1)) is None
    found = slow_start(late, LATE)
    assert found is not None
    assert found.reason == "ContainerCreating"
    assert found.message == (
        "container ray of Pod p is waiting for more than 5 minutes: ContainerCreating:"
        " its Events say why: kubectl describe pod p"
    )


def test_the_init_container_that_the_others_wait_for_is_named() -> None:
    init = [{"name": "wait-gcs-ready", "state": {"running": {"startedAt": BOUND}}}]
    late = starting(init=init, containers=[waiting("ray", "PodInitializing")])
    found = slow_start(late, LATE)
    assert found is not None
    assert found.reason == "PodInitializing"
    assert found.message.endswith("init container wait-gcs-ready still runs; see its log")


def test_the_time_begins_with_the_end_of_the_last_init_container() -> None:
    ended_later = ended("wait-gcs-ready", 0, finishedAt="2026-01-01T12:03:00Z")
    late = starting(init=[ended_later], containers=[waiting("ray", "PodInitializing")])
    assert start_overdue_at(late) == LATE + timedelta(minutes=3)


def test_a_pod_that_nobody_begins_is_named_with_its_node() -> None:
    found = slow_start(starting(), LATE)
    assert found is not None
    assert found.message.startswith("Pod p was not begun on node n1 in 5 minutes")


@pytest.mark.parametrize(
    "well",
    [
        starting(containers=[{"name": "ray", "state": {"running": {}}}]),
        starting(containers=[waiting("ray", "CrashLoopBackOff")]),
        pod(phase="Running", conditions=READY),
        pod(phase="Failed"),
    ],
)
def test_a_pod_that_has_started_or_failed_is_not_late(well: Pod) -> None:
    assert start_overdue_at(well) is None


def test_an_exit_that_the_kubelet_gives_no_reason_for_is_an_error() -> None:
    found = blockage(pod(phase="Running", containerStatuses=[ended(code=3)]))
    assert found is not None
    assert found.reason == "Error"


def untouched(phase: str = "Pending", scheduled: str = "True", **spec: Any) -> Pod:
    condition = {"type": "PodScheduled", "status": scheduled, "lastTransitionTime": BOUND}
    found = pod(phase=phase, conditions=[condition])
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, **spec))


@pytest.mark.parametrize(
    ("seen", "late"),
    [
        (untouched(), LATE),
        (untouched(scheduled="False"), None),
        (untouched("Running"), None),
        (untouched(scheduling_gates=({"name": "kueue"},)), None),
    ],
    ids=["bound", "no node fits", "running", "gated"],
)
def test_only_a_pod_that_a_kubelet_should_have_begun_is_late(
    seen: Pod, late: datetime | None
) -> None:
    assert start_overdue_at(seen) == late
