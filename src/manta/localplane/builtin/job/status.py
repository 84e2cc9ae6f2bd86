"""The next status of a Job. Pure."""

from __future__ import annotations

from datetime import datetime

import msgspec

from manta.api.times import format_time
from manta.localplane.builtin.job import indexes
from manta.localplane.builtin.job.plan import Cause
from manta.localplane.builtin.job.snapshot import JobSnapshot, is_tracked
from manta.localplane.builtin.job.tally import Tally, count_pods
from manta.localplane.builtin.job.verdict import Verdict, is_finished, judge
from manta.localplane.builtin.views import Job, JobCondition, JobStatus, Uncounted
from manta.reconcile.outcome import Outcome


def next_status(snapshot: JobSnapshot, job: Job, outcome: Outcome) -> JobStatus:
    if is_finished(job) or job.metadata.deletion_timestamp:
        return job.status
    tally = count_pods(job, snapshot.pods)
    released = _released(snapshot, outcome)
    status = _count(job, tally, released)
    status = _numbers(status, tally, outcome)
    status = _suspension(status, job, snapshot.now)
    if verdict := judge(job, tally, snapshot.pods, snapshot.now):
        status = _conclude(status, verdict, snapshot.now)
    return status


def _released(snapshot: JobSnapshot, outcome: Outcome) -> frozenset[str]:
    """UIDs of the Pods without the finalizer after this reconcile."""
    patched = {done.key for done in outcome.done if done.action.cause is Cause.RELEASE}
    tracked = {
        pod.metadata.uid
        for pod in snapshot.pods
        if is_tracked(pod) and pod.metadata.key not in patched
    }
    uncounted = (snapshot.job and snapshot.job.status.uncounted_terminated_pods) or Uncounted()
    known = {*(uncounted.succeeded or ()), *(uncounted.failed or ())}
    return frozenset(known - tracked)


def _count(job: Job, tally: Tally, released: frozenset[str]) -> JobStatus:
    """Count the released Pods, and list the Pods that ended since."""
    uncounted = job.status.uncounted_terminated_pods or Uncounted()
    won, lost = uncounted.succeeded or (), uncounted.failed or ()
    succeeded = (job.status.succeeded or 0) + sum(uid in released for uid in won)
    indexed = tally.completed is not None
    return msgspec.structs.replace(
        job.status,
        succeeded=_number(tally.succeeded if indexed else succeeded),
        completed_indexes=indexes.write(tally.completed or ()) or None,
        failed=_number((job.status.failed or 0) + sum(uid in released for uid in lost)),
        uncounted_terminated_pods=Uncounted(
            succeeded=_kept(won, released, tally.new_succeeded),
            failed=_kept(lost, released, tally.new_failed),
        ),
    )


def _kept(
    uids: tuple[str, ...], released: frozenset[str], new: tuple[str, ...]
) -> tuple[str, ...] | None:
    kept = (*(uid for uid in uids if uid not in released), *new)
    return kept or None


def _numbers(status: JobStatus, tally: Tally, outcome: Outcome) -> JobStatus:
    causes = [done.action.cause for done in outcome.done]
    created = causes.count(Cause.CREATE)
    deleted = sum(cause in (Cause.SURPLUS, Cause.DECIDED, Cause.SUSPENDED) for cause in causes)
    return msgspec.structs.replace(
        status,
        active=_number(len(tally.active) + created - deleted),
        ready=tally.ready,
        terminating=tally.terminating + deleted,
    )


def _suspension(status: JobStatus, job: Job, now: datetime) -> JobStatus:
    """A resumed Job starts again: its deadline counts from then."""
    condition = next((c for c in status.conditions or () if c.type == "Suspended"), None)
    if job.spec.suspend:
        return _say(status, "Suspended", "True", ("JobSuspended", "Job suspended"), now)
    resumed = condition is not None and condition.status == "True"
    if resumed:
        status = _say(status, "Suspended", "False", ("JobResumed", "Job resumed"), now)
    if resumed or status.start_time is None:
        status = msgspec.structs.replace(status, start_time=format_time(now))
    return status


def _conclude(status: JobStatus, verdict: Verdict, now: datetime) -> JobStatus:
    because = (verdict.reason, verdict.message)
    status = _say(status, verdict.interim, "True", because, now)
    if status.active or status.terminating or status.uncounted_terminated_pods != Uncounted():
        return status
    status = _say(status, verdict.final, "True", because, now)
    if verdict.final == "Complete":
        status = msgspec.structs.replace(status, completion_time=format_time(now))
    return status


def _say(
    status: JobStatus, type_: str, value: str, because: tuple[str, str], now: datetime
) -> JobStatus:
    old = next((c for c in status.conditions or () if c.type == type_), None)
    if old and old.status == value:
        return status
    stamp = format_time(now)
    new = JobCondition(
        type=type_,
        status=value,
        last_probe_time=stamp,
        last_transition_time=stamp,
        reason=because[0],
        message=because[1],
    )
    others = tuple(c for c in status.conditions or () if c.type != type_)
    return msgspec.structs.replace(status, conditions=(*others, new))


def _number(count: int) -> int | None:
    """Kubernetes leaves out zero here."""
    return count or None
