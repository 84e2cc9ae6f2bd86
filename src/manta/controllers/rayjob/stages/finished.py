"""Complete and Failed: deletions by rule. And a RayJob that is being deleted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from manta.api.ray import names
from manta.api.ray.job import TERMINAL_JOB_STATUSES
from manta.api.ray.resources import RAY_JOBS
from manta.api.times import parse_time
from manta.controllers.rayjob.deletion_policies import POLICIES
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.facts import is_stop_unconfirmed
from manta.controllers.rayjob.snapshot import DashboardReply, JobSnapshot
from manta.controllers.rayjob.stages.running import stop
from manta.controllers.rayjob.transitions import JobStep, nested_status, stay
from manta.reconcile.finalizers import remove_finalizer
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.reconcile.step import Step, earliest, join
from manta.rules.job_deletion import due, next_after

STOP_RETRY_AFTER = timedelta(seconds=10)


def finish(snapshot: JobSnapshot) -> JobStep:
    """Apply the deletion rules that are due. Invalid rules delete nothing."""
    if snapshot.violations:
        return stay(**nested_status(snapshot))
    step = _apply_deletion_rules(snapshot)
    return _confirm_stop(snapshot, step) if is_stop_unconfirmed(snapshot) else step


def _confirm_stop(snapshot: JobSnapshot, step: JobStep) -> JobStep:
    """After a deadline: show the job status that Ray reports, and repeat the stop until it is over
    (C63)."""
    reply, stop_again = snapshot.answer, NOTHING
    if isinstance(reply, DashboardReply):
        if reply.status in TERMINAL_JOB_STATUSES:
            return join((step, stay(job_status=reply.status)))
        if snapshot.now - parse_time(snapshot.status.end_time or "") >= STOP_RETRY_AFTER:
            stop_again = stop(snapshot, "it still runs after its deadline")
    plan = replace(stop_again.then(step.plan), wait=Wait("the job to stop"))
    return replace(step, plan=plan, wake_in=earliest(step.wakeup, STOP_RETRY_AFTER))


def _apply_deletion_rules(snapshot: JobSnapshot) -> JobStep:
    job, now, settings = snapshot.job, snapshot.now, snapshot.settings
    done = frozenset(name for name, policy in POLICIES.items() if policy.is_done(snapshot))
    found = due(job, now, done, settings)
    if found is not None:
        actions = POLICIES[found.policy].actions(snapshot, found.why)
        return stay(do(*actions), **nested_status(snapshot))
    later = next_after(job, now, settings)
    plan = Plan(wait=Wait("the time of a deletion", retry_in=later)) if later else NOTHING
    return stay(plan, **nested_status(snapshot))


def finalize(snapshot: JobSnapshot) -> JobStep:
    """Try once to stop the job, then remove the finalizer even if the stop failed (C64)."""
    meta = snapshot.job.metadata
    if names.FINALIZER_RAY_JOB not in meta.finalizers:
        return Step()
    patch = remove_finalizer(RAY_JOBS, meta, names.FINALIZER_RAY_JOB, Cause.REMOVE_FINALIZER)
    return stay(stop(snapshot, "the RayJob is deleted").then(do(patch)))
