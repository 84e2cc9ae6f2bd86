"""Whether a Job has ended, and how. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from manta.api.times import bounded_seconds, parse_time
from manta.localplane.builtin.job.failure_policy import FAIL_JOB, meaning
from manta.localplane.builtin.job.snapshot import JobSnapshot
from manta.localplane.builtin.job.tally import Tally
from manta.localplane.builtin.views import Job, JobCondition, Pod

FIRST_BACKOFF = timedelta(seconds=10)
LONGEST_BACKOFF = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Verdict:
    interim: str
    """Said at once: SuccessCriteriaMet or FailureTarget."""
    final: str
    """Said when all Pods have ended: Complete or Failed."""
    reason: str
    message: str


REACHED = Verdict(
    "SuccessCriteriaMet",
    "Complete",
    "CompletionsReached",
    "Reached expected number of succeeded pods",
)
BACKOFF_LIMIT = Verdict(
    "FailureTarget", "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
)
DEADLINE = Verdict(
    "FailureTarget", "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
)
_FINAL = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}


def condition(job: Job, type_: str) -> JobCondition | None:
    """The condition of this type, when it is true."""
    for one in job.status.conditions or ():
        if one.type == type_ and one.status == "True":
            return one
    return None


def is_finished(job: Job) -> bool:
    return condition(job, "Complete") is not None or condition(job, "Failed") is not None


def judge(job: Job, tally: Tally, pods: tuple[Pod, ...], now: datetime) -> Verdict | None:
    """A verdict is final: it is read back from the interim condition."""
    for interim, final in _FINAL.items():
        if found := condition(job, interim):
            return Verdict(interim, final, found.reason, found.message)
    for pod in pods:
        action, why = meaning(job, pod)
        if action == FAIL_JOB:
            return Verdict("FailureTarget", "Failed", "PodFailurePolicy", why)
    limit = 6 if job.spec.backoff_limit is None else job.spec.backoff_limit
    if tally.failed > limit or _restarted_too_often(job, pods, limit):
        return BACKOFF_LIMIT
    if is_complete(job, tally):
        return REACHED
    left = time_left(job, now)
    return DEADLINE if left is not None and left <= timedelta(0) else None


def is_complete(job: Job, tally: Tally) -> bool:
    if job.spec.completions is not None:
        return tally.succeeded >= job.spec.completions
    # A work queue: the first success says that the work is done, the others end by themselves.
    return tally.succeeded > 0 and not tally.active


def time_left(job: Job, now: datetime) -> timedelta | None:
    """Until activeDeadlineSeconds is over; None when there is no deadline running."""
    deadline = job.spec.active_deadline_seconds
    if deadline is None or job.status.start_time is None or job.spec.suspend:
        return None
    return parse_time(job.status.start_time) + bounded_seconds(deadline) - now


def _restarted_too_often(job: Job, pods: tuple[Pod, ...], limit: int) -> bool:
    """With restartPolicy OnFailure the kubelet retries in place, and restarts are the failures."""
    if job.spec.template.get("spec", {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        status.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for status in (
            *(pod.status.init_container_statuses or ()),
            *(pod.status.container_statuses or ()),
        )
    )
    return restarts > 0 if limit == 0 else restarts >= limit


def backoff_left(snapshot: JobSnapshot) -> timedelta:
    """How long no replacement may start: 10 s after the first failure in a row, then doubled."""
    ended = sorted((finished_at(pod), pod.status.phase) for pod in snapshot.pods if pod.is_terminal)
    streak = 0
    for _, phase in reversed(ended):
        if phase == "Succeeded":
            break
        streak += 1
    if streak == 0:
        return timedelta(0)
    delay = min(FIRST_BACKOFF * (1 << min(streak - 1, 10)), LONGEST_BACKOFF)
    return max(ended[-1][0] + delay - snapshot.now, timedelta(0))


def finished_at(pod: Pod) -> datetime:
    """When its last container ended; a Pod that never had one ended when it was last touched."""
    ends = [
        status.state.terminated.finished_at
        for status in pod.status.container_statuses or ()
        if status.state and status.state.terminated and status.state.terminated.finished_at
    ]
    if ends:
        return max(map(parse_time, ends))
    ready = pod.condition("Ready")
    moved = ready.last_transition_time if ready else ""
    return parse_time(moved or pod.metadata.deletion_timestamp or pod.metadata.creation_timestamp)
