"""The life of a fake Pod as a table of moves: from which stage to which, after how long. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from math import inf

from manta.localplane.builtin.views import Pod
from manta.localplane.fakenodes.script import Ending, Script

FIRST_BACKOFF = 10.0
LONGEST_BACKOFF = 300.0
PULL_RETRY = 2.0
"""From ErrImagePull to ImagePullBackOff."""


class Stage(Enum):
    BOUND = auto()
    PULL_ERROR = auto()
    PULL_BACKOFF = auto()
    INIT_CRASHED = auto()
    RUNNING = auto()
    READY = auto()
    CRASHED = auto()
    PARTLY_ENDED = auto()
    """One container has ended, the others run on."""
    SUCCEEDED = auto()
    FAILED = auto()
    EVICTED = auto()
    STOPPED = auto()
    """Told to go, and ended: only the object is left."""


ENDED = (Stage.SUCCEEDED, Stage.FAILED, Stage.EVICTED)
STARTED = (Stage.RUNNING, Stage.READY)


@dataclass(frozen=True, slots=True)
class Life:
    """Where a Pod is in its life, and since when (seconds of the clock)."""

    stage: Stage
    since: float
    starts: int = 0
    """How often its containers were restarted."""
    ended: Ending | None = None
    """How they last ended."""
    stopping: bool = False
    """It was told to go, at `since`."""


@dataclass(frozen=True, slots=True)
class Move:
    stage: Stage
    at: float
    """When it is due."""
    starts: int = 0
    ended: Ending | None = None
    again: bool = False
    """The stage stays what it is; only what is told of it changed."""


def first_life(pod: Pod, now: float) -> Life:
    """What can be read from a Pod that was here before us, say after a restart."""
    statuses = pod.status.container_statuses or ()
    starts = max((one.restart_count for one in statuses), default=0)
    match pod.status.phase:
        case "Running":
            return Life(Stage.READY if pod.is_ready else Stage.RUNNING, now, starts)
        case "Succeeded":
            return Life(Stage.SUCCEEDED, now, starts)
        case "Failed":
            return Life(Stage.FAILED, now, starts)
        case _:
            return Life(Stage.BOUND, now, starts)


def next_move(pod: Pod, life: Life, script: Script, now: float) -> Move | None:
    """What happens next if nobody interferes; None: nothing, ever."""
    if pod.is_deleting:
        return _stop(pod, life, script)
    move = _MOVES[life.stage](pod, life, script)
    return None if move is None or move.at == inf else _not_past(move, now)


def _not_past(move: Move, now: float) -> Move:
    """A move that was due while nobody looked happens now."""
    return Move(move.stage, max(move.at, now), move.starts, move.ended)


def _stop(pod: Pod, life: Life, script: Script) -> Move | None:
    """Termination takes as long as the script says, but no longer than the grace period."""
    if life.stage is Stage.STOPPED or script.stop == inf:
        return None
    started = life.stage not in (Stage.BOUND, Stage.PULL_ERROR, Stage.PULL_BACKOFF, *ENDED)
    grace = pod.metadata.deletion_grace_period_seconds or 0
    seconds = min(script.stop, grace) if started else 0.0
    return Move(Stage.STOPPED, life.since + seconds, life.starts, life.ended)


def _from_bound(pod: Pod, life: Life, script: Script) -> Move | None:
    at = life.since + script.start
    if script.pull_error:
        return Move(Stage.PULL_ERROR, at)
    return _start(pod, script, at, 0)


def _start(pod: Pod, script: Script, at: float, starts: int) -> Move:
    if script.init_exit and pod.spec.init_containers:
        never = pod.spec.restart_policy == "Never"
        ended = Ending(0, script.init_exit)
        return Move(Stage.FAILED if never else Stage.INIT_CRASHED, at, starts, ended)
    quick = script.ready == 0
    return Move(Stage.READY if quick else Stage.RUNNING, at, starts)


def _from_pull_error(pod: Pod, life: Life, script: Script) -> Move | None:
    del pod
    if script.pull_error <= PULL_RETRY:
        return Move(Stage.RUNNING, life.since + script.pull_error)
    return Move(Stage.PULL_BACKOFF, life.since + PULL_RETRY)


def _from_pull_backoff(pod: Pod, life: Life, script: Script) -> Move | None:
    return _start(pod, script, life.since + script.pull_error - PULL_RETRY, 0)


def _from_init_crash(pod: Pod, life: Life, script: Script) -> Move | None:
    return _start(pod, script, life.since + backoff(life.starts), life.starts + 1)


def _from_running(pod: Pod, life: Life, script: Script) -> Move | None:
    ready = Move(Stage.READY, life.since + script.ready, life.starts)
    end = _end(pod, life, script, life.since)
    return end if end and end.at < ready.at else ready


def _from_ready(pod: Pod, life: Life, script: Script) -> Move | None:
    # An ending counts from the start of the containers, which was `ready` seconds before.
    lead = 0 if script.ready == inf else script.ready
    return _end(pod, life, script, life.since - lead)


def _end(pod: Pod, life: Life, script: Script, started: float) -> Move | None:
    ending = script.ending(life.starts)
    if script.evict < ending.after:
        return Move(Stage.EVICTED, started + script.evict, life.starts)
    if ending.container and len(pod.spec.containers) > 1:
        return Move(Stage.PARTLY_ENDED, started + ending.after, life.starts, ending)
    return Move(stage_after(pod, ending), started + ending.after, life.starts, ending)


def stage_after(pod: Pod, ending: Ending) -> Stage:
    """What the restart policy makes of an end."""
    policy = pod.spec.restart_policy
    if policy == "Always" or (policy == "OnFailure" and ending.code):
        return Stage.CRASHED
    return Stage.FAILED if ending.code else Stage.SUCCEEDED


def _from_crashed(pod: Pod, life: Life, script: Script) -> Move | None:
    # The first restart is immediate, as the kubelet's is.
    pause = backoff(life.starts - 1) if life.starts else 0.0
    return _start(pod, script, life.since + pause, life.starts + 1)


def backoff(restarts: int) -> float:
    """Seconds until the next restart of a container that crashes."""
    return min(FIRST_BACKOFF * float(1 << min(restarts, 10)), LONGEST_BACKOFF)


def _nothing(pod: Pod, life: Life, script: Script) -> Move | None:
    del pod, life, script
    return None


_MOVES = {
    Stage.BOUND: _from_bound,
    Stage.PULL_ERROR: _from_pull_error,
    Stage.PULL_BACKOFF: _from_pull_backoff,
    Stage.INIT_CRASHED: _from_init_crash,
    Stage.RUNNING: _from_running,
    Stage.READY: _from_ready,
    Stage.CRASHED: _from_crashed,
    Stage.PARTLY_ENDED: _nothing,
    Stage.SUCCEEDED: _nothing,
    Stage.FAILED: _nothing,
    Stage.EVICTED: _nothing,
    Stage.STOPPED: _nothing,
}
