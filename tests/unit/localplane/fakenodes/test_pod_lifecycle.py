"""The stages of a fake Pod."""

from __future__ import annotations

from typing import Any

import pytest

from manta.localplane.builtin.views import Pod
from manta.localplane.fakenodes.pod_lifecycle import PodState, Stage, initial_state, next_transition
from manta.localplane.fakenodes.pod_status import Placement, next_status
from manta.localplane.fakenodes.script import Script, parse
from support.plane_objects import a_pod

PLACEMENT = Placement("192.168.0.1", "10.128.0.1", "2026-11-15T12:00:00Z")


def story(script: str, *, moves: int = 8, **spec: Any) -> list[tuple[str, float]]:
    """The stages that a Pod goes through, and when."""
    pod = a_pod("p", **spec)
    state, reported = PodState(Stage.BOUND, 0.0), []
    for _ in range(moves):
        transition = next_transition(pod, state, parse(script, Script()), state.since)
        if transition is None:
            break
        reported.append((transition.stage.name, transition.at))
        state = PodState(transition.stage, transition.at, transition.restarts, transition.ended)
    return reported


def test_a_pod_without_a_script_gets_ready_and_stays() -> None:
    assert story("") == [("READY", 0)]


def test_delays_add_up() -> None:
    assert story("start=2 ready=5") == [("RUNNING", 2), ("READY", 7)]


def test_a_pod_that_never_starts_or_never_gets_ready() -> None:
    assert story("start=never") == []
    assert story("ready=never") == [("RUNNING", 0)]


def test_an_image_that_cannot_be_pulled_for_a_while() -> None:
    assert story("pull=error") == [("PULL_ERROR", 0), ("PULL_BACKOFF", 2)]
    assert story("pull=error:30") == [("PULL_ERROR", 0), ("PULL_BACKOFF", 2), ("READY", 30)]


@pytest.mark.parametrize(
    ("policy", "code", "stage"),
    [
        ("Never", 0, "SUCCEEDED"),
        ("Never", 3, "FAILED"),
        ("OnFailure", 0, "SUCCEEDED"),
        ("OnFailure", 3, "CRASHED"),
        ("Always", 0, "CRASHED"),
    ],
)
def test_the_restart_policy_decides_what_an_end_means(policy: str, code: int, stage: str) -> None:
    reported = story(f"exit={code}@4", moves=2, restartPolicy=policy)
    assert reported == [("READY", 0), (stage, 4)]


def test_a_crash_loop_slows_down_until_the_script_lets_it_run() -> None:
    assert story("exit=1@1 exit=1@1 exit=1@1 run", moves=20) == [
        ("READY", 0),
        ("CRASHED", 1),
        ("READY", 1),
        ("CRASHED", 2),
        ("READY", 12),
        ("CRASHED", 13),
        ("READY", 33),
    ]


def test_an_end_counts_from_the_start_of_the_containers() -> None:
    assert story("ready=5 exit=0@3", restartPolicy="Never")[-1] == ("SUCCEEDED", 3)
    assert story("ready=5 exit=0@8", restartPolicy="Never")[-1] == ("SUCCEEDED", 8)


def test_an_eviction_is_final() -> None:
    assert story("evict@9") == [("READY", 0), ("EVICTED", 9)]


def test_a_failing_init_container_keeps_the_pod_from_running() -> None:
    inits = [{"name": "i"}]
    assert story("init-exit=42", initContainers=inits, restartPolicy="Never") == [("FAILED", 0)]
    assert story("init-exit=42", initContainers=inits, moves=3) == [
        ("INIT_CRASHED", 0),
        ("INIT_CRASHED", 10),
        ("INIT_CRASHED", 30),
    ]


def leaving(grace: int) -> Pod:
    stamps = {"deletionTimestamp": "2026-11-15T12:00:30Z", "deletionGracePeriodSeconds": grace}
    return a_pod("p", meta=stamps)


@pytest.mark.parametrize(("script", "at"), [("", 0), ("stop=20", 20), ("stop=99", 30)])
def test_termination_takes_its_time_within_the_grace_period(script: str, at: float) -> None:
    state = PodState(Stage.READY, 0.0, stopping=True)
    transition = next_transition(leaving(30), state, parse(script, Script()), 0.0)
    assert transition
    assert (transition.stage, transition.at) == (Stage.STOPPED, at)


def test_a_pod_may_refuse_to_go() -> None:
    state = PodState(Stage.READY, 0.0, stopping=True)
    assert next_transition(leaving(30), state, parse("stop=never", Script()), 99.0) is None


def test_a_restarted_kubelet_reads_the_stage_from_the_pod() -> None:
    assert initial_state(a_pod(phase="Running", ready=True), 7.0) == PodState(Stage.READY, 7.0)
    assert initial_state(a_pod(phase="Running"), 7.0).stage is Stage.RUNNING
    assert initial_state(a_pod(phase="Failed"), 7.0).stage is Stage.FAILED


# ── what is written ──────────────────────────────────────────────────────────────────────
def written(script: str, stage: Stage, **spec: Any) -> dict[str, Any]:
    """The status at the first transition to a stage."""
    pod = a_pod("p", **spec)
    state = PodState(Stage.BOUND, 0.0)
    for _ in range(20):
        transition = next_transition(pod, state, parse(script, Script()), state.since)
        assert transition, f"never reached {stage}"
        status = next_status(pod, state, transition, PLACEMENT)
        if transition.stage is stage:
            return status
        state = PodState(transition.stage, transition.at, transition.restarts, transition.ended)
    raise AssertionError(f"never reached {stage}")


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["status"] for one in status["conditions"]}


def test_a_ready_pod_has_addresses_and_true_conditions() -> None:
    status = written("", Stage.READY)
    assert (status["phase"], status["podIP"], status["hostIP"]) == (
        "Running",
        "10.128.0.1",
        "192.168.0.1",
    )
    assert set(conditions(status).values()) == {"True"}


def test_a_running_pod_is_not_ready() -> None:
    status = written("ready=5", Stage.RUNNING)
    said = conditions(status)
    assert (said["Ready"], said["ContainersReady"], said["Initialized"]) == (
        "False",
        "False",
        "True",
    )


def test_an_image_error_is_reported_in_the_container_and_there_is_no_address() -> None:
    status = written("pull=error", Stage.PULL_BACKOFF)
    waiting = status["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "i"'}
    assert status["phase"] == "Pending"
    assert "podIP" not in status


def test_memory_that_ran_out_is_reported_with_its_code() -> None:
    status = written("oom@1", Stage.FAILED, restartPolicy="Never")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], status["phase"]) == (137, "OOMKilled", "Failed")


def test_a_crash_loop_shows_the_last_end_and_counts() -> None:
    status = written("exit=1@1", Stage.CRASHED)
    [container] = status["containerStatuses"]
    assert container["lastState"]["terminated"]["exitCode"] == 1
    assert "waiting" in container["state"]
    assert status["phase"] == "Running"


def test_an_eviction_has_a_reason_on_the_pod_itself() -> None:
    status = written("evict@1", Stage.EVICTED)
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")


def test_the_code_of_an_init_container_is_reported_there() -> None:
    spec = {"initContainers": [{"name": "i", "image": "x"}], "restartPolicy": "Never"}
    status = written("init-exit=42", Stage.FAILED, **spec)
    [init] = status["initContainerStatuses"]
    assert init["state"]["terminated"]["exitCode"] == 42
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}


def test_only_the_named_container_ends() -> None:
    containers = [{"name": "main"}, {"name": "side"}]
    status = written("exit=0@1/side", Stage.PARTLY_ENDED, containers=containers)
    states = {one["name"]: next(iter(one["state"])) for one in status["containerStatuses"]}
    assert states == {"main": "running", "side": "terminated"}
    assert status["phase"] == "Running"
    assert conditions(status)["Ready"] == "False"


def test_conditions_of_others_survive() -> None:
    foreign = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert conditions(written("", Stage.READY, status=foreign))["DisruptionTarget"] == "True"
