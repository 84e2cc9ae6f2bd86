from __future__ import annotations

from typing import Any

import pytest

from manta.localplane.node.pod.snapshot import (
    ContainerFacts,
    ContainerState,
    Failure,
    PodSnapshot,
    Progress,
    Step,
)
from manta.localplane.node.pod.status import next_status
from support.node import a_pod, a_snapshot, ended, idle, running

TWO = [{"name": "one"}, {"name": "two"}]


def condition(snapshot: PodSnapshot, kind: str) -> dict[str, Any]:
    return next(one for one in next_status(snapshot)["conditions"] if one["type"] == kind)


def container(snapshot: PodSnapshot, name: str = "main") -> dict[str, Any]:
    status = next_status(snapshot)
    known = [*status["containerStatuses"], *status.get("initContainerStatuses", [])]
    return next(one for one in known if one["name"] == name)


@pytest.mark.parametrize(
    ("policy", "facts", "phase"),
    [
        ("Always", {}, "Pending"),
        ("Always", {"one": running()}, "Pending"),
        ("Always", {"one": running(), "two": running()}, "Running"),
        ("Always", {"one": ended(1), "two": ended(0)}, "Running"),
        ("Never", {"one": running(), "two": ended(1)}, "Running"),
        ("Never", {"one": ended(0), "two": ended(0)}, "Succeeded"),
        ("Never", {"one": ended(0), "two": ended(1)}, "Failed"),
        ("OnFailure", {"one": ended(0), "two": ended(1)}, "Running"),
        ("OnFailure", {"one": ended(0), "two": ended(0)}, "Succeeded"),
    ],
)
def test_the_phase_sums_up_the_containers(policy: str, facts: Any, phase: str) -> None:
    snapshot = a_snapshot(a_pod(containers=TWO, restartPolicy=policy), containers=facts)
    assert next_status(snapshot)["phase"] == phase


def test_a_final_phase_never_changes_back() -> None:
    pod = a_pod(status={"phase": "Failed"})
    assert next_status(a_snapshot(pod, containers={"main": running()}))["phase"] == "Failed"


def test_a_running_pod_without_probes_is_ready() -> None:
    snapshot = a_snapshot(a_pod(), containers={"main": running()})
    assert condition(snapshot, "Ready")["status"] == "True"
    assert container(snapshot)["ready"]
    assert container(snapshot)["started"]
    assert container(snapshot)["state"] == {"running": {"startedAt": "1970-01-01T00:15:50Z"}}
    assert next_status(snapshot)["podIPs"] == [{"ip": "10.88.0.2"}]


def test_a_readiness_probe_must_have_passed() -> None:
    pod = a_pod(containers=[{"name": "main", "readinessProbe": {"tcpSocket": {"port": 1}}}])
    unready = a_snapshot(pod, containers={"main": running()})
    assert condition(unready, "Ready")["reason"] == "ContainersNotReady"
    assert condition(unready, "Ready")["message"] == "containers with unready status: [main]"
    assert (
        condition(a_snapshot(pod, containers={"main": running(ready=True)}), "Ready")["status"]
        == "True"
    )


def test_a_readiness_gate_holds_back_the_pod_but_not_its_containers() -> None:
    pod = a_pod(readinessGates=[{"conditionType": "example.com/open"}])
    snapshot = a_snapshot(pod, containers={"main": running()})
    assert condition(snapshot, "ContainersReady")["status"] == "True"
    assert condition(snapshot, "Ready")["reason"] == "ReadinessGatesNotReady"


def test_conditions_of_others_are_kept_and_unchanged_ones_keep_their_time() -> None:
    before = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]
    snapshot = a_snapshot(a_pod(status={"conditions": before}), containers={"main": running()})
    assert condition(snapshot, "PodScheduled")["status"] == "True"
    assert condition(snapshot, "Ready")["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert condition(snapshot, "ContainersReady")["lastTransitionTime"] == "1970-01-01T00:16:40Z"


def test_an_image_that_cannot_be_had_is_what_the_container_waits_for() -> None:
    trouble = Failure("ErrImagePull", "no rule matches", 1010.0)
    facts = ContainerFacts(image=Progress(Step.FAILED, trouble))
    waiting = container(a_snapshot(a_pod(), containers={"main": facts}))["state"]["waiting"]
    assert waiting == {"reason": "ErrImagePull", "message": "no rule matches"}


@pytest.mark.parametrize(("init", "reason"), [([], "ContainerCreating"), (TWO, "PodInitializing")])
def test_an_app_container_says_what_it_waits_for(init: Any, reason: str) -> None:
    snapshot = a_snapshot(a_pod(initContainers=init), containers={"main": idle()})
    assert container(snapshot)["state"]["waiting"]["reason"] == reason


def test_a_crashing_container_shows_its_last_end_while_it_waits() -> None:
    facts = {"main": ended(3, finished=999.0, attempt=2, crashes=3)}
    status = container(a_snapshot(a_pod(), containers=facts))
    assert status["restartCount"] == 2
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["state"]["waiting"]["message"].startswith("back-off 20s restarting failed")
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert not status["ready"]


def test_a_command_that_is_not_there_is_a_start_error() -> None:
    words = 'exec: "x": executable file not found in $PATH'
    facts = {"main": ended(128, error=words)}
    status = container(a_snapshot(a_pod(restartPolicy="Never"), containers=facts))
    assert status["state"]["terminated"]["reason"] == "StartError"
    assert status["state"]["terminated"]["exitCode"] == 128
    assert status["state"]["terminated"]["message"] == words


def test_initialized_tells_which_init_containers_are_missing() -> None:
    snapshot = a_snapshot(a_pod(initContainers=TWO), containers={"one": ended(0), "two": running()})
    assert condition(snapshot, "Initialized")["status"] == "False"
    expected = "containers with incomplete status: [two]"
    assert condition(snapshot, "Initialized")["message"] == expected
    assert container(snapshot, "one")["ready"]


def test_a_pod_past_its_deadline_fails_and_says_why() -> None:
    pod = a_pod(activeDeadlineSeconds=1)
    status = next_status(a_snapshot(pod, containers={"main": ended(143)}))
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


def test_a_deleted_pod_ends_in_a_final_phase() -> None:
    pod = a_pod(metadata={"deletionTimestamp": "2026-11-15T08:00:00Z"})
    assert next_status(a_snapshot(pod, containers={"main": running()}))["phase"] == "Running"
    assert next_status(a_snapshot(pod, containers={"main": ended(137)}))["phase"] == "Failed"
    assert next_status(a_snapshot(pod, containers={"main": ended(0)}))["phase"] == "Succeeded"


def test_a_starting_container_is_still_waiting() -> None:
    facts = {"main": idle(state=ContainerState.STARTING, attempt=0)}
    snapshot = a_snapshot(a_pod(), containers=facts)
    assert next_status(snapshot)["phase"] == "Pending"
    assert "waiting" in container(snapshot)["state"]
