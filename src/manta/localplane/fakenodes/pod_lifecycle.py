"""The stages of a fake Pod: from each stage to the next, and when. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from math import inf

from manta.localplane.builtin.views import Pod
from manta.localplane.fakenodes.script import Exit, Script
from manta.localplane.kubelet import PULL_ERROR_SHOWN, restart_delay, restarts_container


class Stage(Enum):
    BOUND = auto()
    PULL_ERROR = auto()
    PULL_BACKOFF = auto()
    INIT_CRASHED = auto()
    RUNNING = auto()
    READY = auto()
    CRASHED = auto()
    PARTLY_ENDED = auto()
    """One container has ended, the others still run."""
    SUCCEEDED = auto()
    FAILED = auto()
    EVICTED = auto()
    STOPPED = auto()
    """Deleted, and all containers have ended: only the API object is left."""


ENDED = (Stage.SUCCEEDED, Stage.FAILED, Stage.EVICTED)
STARTED = (Stage.RUNNING, Stage.READY)


@dataclass(frozen=True, slots=True)
class PodState:
    """The stage of a Pod, and since when (seconds of the monotonic clock)."""

    stage: Stage
    since: float
    restarts: int = 0
    ended: Exit | None = None
    """How the containers last ended."""
    stopping: bool = False
    """The Pod was deleted, at `since`."""


@dataclass(frozen=True, slots=True)
class Transition:
    stage: Stage
    at: float
    restarts: int = 0
    ended: Exit | None = None
    status_only: bool = False
    """The stage does not change; only the status is written again."""


def initial_state(pod: Pod, now: float) -> PodState:
    """The state of a Pod that existed before this process, read from its status."""
    statuses = pod.status.container_statuses or ()
    restarts = max((one.restart_count for one in statuses), default=0)
    match pod.status.phase:
        case "Running":
            return PodState(Stage.READY if pod.is_ready else Stage.RUNNING, now, restarts)
        case "Succeeded":
            return PodState(Stage.SUCCEEDED, now, restarts)
        case "Failed":
            return PodState(Stage.FAILED, now, restarts)
        case _:
            return PodState(Stage.BOUND, now, restarts)


def next_transition(pod: Pod, state: PodState, script: Script, now: float) -> Transition | None:
    """The next transition, or None if the Pod stays in its stage."""
    if pod.is_deleting:
        return _stop(pod, state, script)
    step = _TRANSITIONS.get(state.stage)
    transition = step(pod, state, script) if step else None
    return None if transition is None or transition.at == inf else _not_past(transition, now)


def _not_past(transition: Transition, now: float) -> Transition:
    """A transition that is overdue happens now."""
    return Transition(
        transition.stage, max(transition.at, now), transition.restarts, transition.ended
    )


def _stop(pod: Pod, state: PodState, script: Script) -> Transition | None:
    """Termination takes as long as the script says, at most the grace period."""
    if state.stage is Stage.STOPPED or script.stop == inf:
        return None
    started = state.stage not in (Stage.BOUND, Stage.PULL_ERROR, Stage.PULL_BACKOFF, *ENDED)
    grace = pod.metadata.deletion_grace_period_seconds or 0
    seconds = min(script.stop, grace) if started else 0.0
    return Transition(Stage.STOPPED, state.since + seconds, state.restarts, state.ended)


def _from_bound(pod: Pod, state: PodState, script: Script) -> Transition | None:
    at = state.since + script.start
    if script.pull_error:
        return Transition(Stage.PULL_ERROR, at)
    return _start(pod, script, at, 0)


def _start(pod: Pod, script: Script, at: float, restarts: int) -> Transition:
    if script.init_exit and pod.spec.init_containers:
        never = pod.spec.restart_policy == "Never"
        ended = Exit(0, script.init_exit)
        return Transition(Stage.FAILED if never else Stage.INIT_CRASHED, at, restarts, ended)
    quick = script.ready == 0
    return Transition(Stage.READY if quick else Stage.RUNNING, at, restarts)


def _from_pull_error(pod: Pod, state: PodState, script: Script) -> Transition | None:
    del pod
    if script.pull_error <= PULL_ERROR_SHOWN:
        return Transition(Stage.RUNNING, state.since + script.pull_error)
    return Transition(Stage.PULL_BACKOFF, state.since + PULL_ERROR_SHOWN)


def _from_pull_backoff(pod: Pod, state: PodState, script: Script) -> Transition | None:
    return _start(pod, script, state.since + script.pull_error - PULL_ERROR_SHOWN, 0)


def _from_init_crash(pod: Pod, state: PodState, script: Script) -> Transition | None:
    return _start(pod, script, state.since + restart_delay(state.restarts + 2), state.restarts + 1)


def _from_running(pod: Pod, state: PodState, script: Script) -> Transition | None:
    ready = Transition(Stage.READY, state.since + script.ready, state.restarts)
    end = _end(pod, state, script, state.since)
    return end if end and end.at < ready.at else ready


def _from_ready(pod: Pod, state: PodState, script: Script) -> Transition | None:
    # The script counts an exit from the start of the containers, `ready` seconds before.
    lead = 0 if script.ready == inf else script.ready
    return _end(pod, state, script, state.since - lead)


def _end(pod: Pod, state: PodState, script: Script, started: float) -> Transition | None:
    exit_ = script.exit_after(state.restarts)
    if script.evict < exit_.after:
        return Transition(Stage.EVICTED, started + script.evict, state.restarts)
    if exit_.container and len(pod.spec.containers) > 1:
        return Transition(Stage.PARTLY_ENDED, started + exit_.after, state.restarts, exit_)
    return Transition(stage_after(pod, exit_), started + exit_.after, state.restarts, exit_)


def stage_after(pod: Pod, exit_: Exit) -> Stage:
    """The stage that follows an exit under the Pod's restart policy."""
    if restarts_container(pod.spec.restart_policy, exit_.code):
        return Stage.CRASHED
    return Stage.FAILED if exit_.code else Stage.SUCCEEDED


def _from_crashed(pod: Pod, state: PodState, script: Script) -> Transition | None:
    delay = restart_delay(state.restarts + 1)
    return _start(pod, script, state.since + delay, state.restarts + 1)


_TRANSITIONS: dict[Stage, Callable[[Pod, PodState, Script], Transition | None]] = {
    Stage.BOUND: _from_bound,
    Stage.PULL_ERROR: _from_pull_error,
    Stage.PULL_BACKOFF: _from_pull_backoff,
    Stage.INIT_CRASHED: _from_init_crash,
    Stage.RUNNING: _from_running,
    Stage.READY: _from_ready,
    Stage.CRASHED: _from_crashed,
}
