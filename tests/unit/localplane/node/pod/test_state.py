"""The facts of a Pod change by named events, and every change wakes the worker."""

from __future__ import annotations

from typing import Any

from manta.localplane.node.pod.snapshot import ContainerState, Step, Termination
from manta.localplane.node.pod.state import PodState
from support.node import a_pod, ended, running

END = Termination(code=1, started=900.0, finished=1000.0)


def a_state(**pod: Any) -> PodState:
    return PodState(a_pod(**pod), lambda: 1000.0)


def test_a_failed_start_goes_back_to_the_end_before_and_is_retried_later() -> None:
    state = a_state()
    state.start_requested("main", 0)
    state.started("main", 900.0)
    state.terminated("main", END)
    for retry_at in (1001.0, 1002.0, 1004.0):
        state.start_requested("main", 1)
        state.start_failed("main", "no such secret")
        facts = state.container("main")
        assert (facts.state, facts.attempt) == (ContainerState.TERMINATED, 0)
        assert (facts.termination, facts.last_termination) == (END, None)
        assert facts.start.failure is not None
        assert facts.start.failure.retry_at == retry_at


def test_a_restart_keeps_the_end_before_and_forgets_probe_results() -> None:
    state = a_state()
    state.restore_running("10.88.0.2", {"main": running(ready=True, startup_passed=True)})
    state.terminated("main", END)
    state.start_requested("main", 1)
    facts = state.container("main")
    assert (facts.last_termination, facts.termination, facts.crashes) == (END, None, 1)
    assert (facts.ready, facts.startup_passed) == (False, False)


def test_init_containers_that_had_succeeded_run_again_in_a_new_sandbox() -> None:
    inits = [{"name": name, "image": "busybox"} for name in ("done", "failed")]
    state = a_state(initContainers=inits)
    state.restore_ended({"done": ended(0), "failed": ended(1), "main": ended(1)})
    states = {name: facts.state for name, facts in state.facts.containers.items()}
    assert states == {
        "done": ContainerState.NOT_STARTED,
        "failed": ContainerState.TERMINATED,
        "main": ContainerState.TERMINATED,
    }
    assert state.container("done").last_termination is not None


def test_the_first_reason_to_restart_a_container_stays() -> None:
    state = a_state()
    state.unhealthy("main", "liveness probe", 5)
    state.unhealthy("main", "FailedPostStartHook")
    assert (state.container("main").unhealthy, state.container("main").unhealthy_grace) == (
        "liveness probe",
        5,
    )


def test_a_deletion_is_seen_once_and_every_change_wakes_the_worker() -> None:
    state = a_state()
    assert not state.changed.is_set()
    deleted = a_pod(metadata={"deletionTimestamp": "2026-11-15T12:00:00Z"})
    state.set_pod(deleted)
    assert (state.facts.terminating_since, state.changed.is_set()) == (1000.0, True)
    state.changed.clear()
    state.sandbox_failed("no address")
    assert (state.facts.sandbox.step, state.changed.is_set()) == (Step.FAILED, True)
