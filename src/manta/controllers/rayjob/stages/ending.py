"""Suspending, Suspended, Retrying: give everything back; and what happens after the end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.job import TERMINAL_JOB_STATUSES, DeletionPolicyType, JobDeploymentStatus
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import JOBS
from manta.api.times import parse_time
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.inquire import still_to_stop
from manta.controllers.rayjob.snapshot import JobSnapshot, Told
from manta.controllers.rayjob.stages.running import stop
from manta.controllers.rayjob.step import Step, forget_attempt, nested_status, stay
from manta.reconcile.actions import Action, Delete, Patch
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.rules.job_deletion import Deletion, due, next_after

STOP_PATIENCE = timedelta(seconds=10)


def suspend(seen: JobSnapshot) -> Step:
    """Atomic: once begun it goes through, whatever `spec.suspend` says meanwhile."""
    return _release(seen, Cause.SUSPENDED, "the RayJob is suspended", JobDeploymentStatus.SUSPENDED)


def rest(seen: JobSnapshot) -> Step:
    """Suspended: nothing at all, until the user says otherwise."""
    if seen.spec.suspend:
        return stay(seen)
    return Step(NOTHING, forget_attempt(seen, JobDeploymentStatus.NEW))


def retry(seen: JobSnapshot) -> Step:
    return _release(seen, Cause.RETRY, "a new attempt begins", JobDeploymentStatus.NEW)


def _release(seen: JobSnapshot, cause: Cause, why: str, then: JobDeploymentStatus) -> Step:
    """Delete cluster and submitter; the next stage comes when both are gone."""
    deletions: list[Action] = []
    if seen.cluster is not None and not seen.borrows_cluster:
        deletions.append(_delete_cluster(seen, cause, why))
    if seen.submitter is not None:
        meta = seen.submitter.metadata
        deletions.append(Delete(JOBS, meta.key, meta.uid, Cause.SUBMITTER_GIVEN_BACK, why))
    if deletions:
        waits = Wait("the cluster and the submitter to be gone")
        return stay(seen, do(*(one for one in deletions if _still_wanted(seen, one)), wait=waits))
    return Step(NOTHING, forget_attempt(seen, then))


def _still_wanted(seen: JobSnapshot, deletion: Action) -> bool:
    """What is on its way out already needs no second push."""
    assert isinstance(deletion, Delete)
    thing = seen.cluster if deletion.resource is RAY_CLUSTERS else seen.submitter
    return thing is not None and thing.metadata.deletion_timestamp is None


def _delete_cluster(seen: JobSnapshot, cause: Cause, why: str) -> Delete:
    assert seen.cluster is not None
    meta = seen.cluster.metadata
    return Delete(RAY_CLUSTERS, meta.key, meta.uid, cause, why)


# ── after the end ────────────────────────────────────────────────────────────────────────


def finish(seen: JobSnapshot) -> Step:
    """Complete or Failed: only deletions by rule are left, to the second."""
    if seen.violations:
        return stay(seen, **nested_status(seen))  # rules that make no sense delete nothing
    step = _by_rule(seen)
    return _confirm_stop(seen, step) if still_to_stop(seen) else step


def _confirm_stop(seen: JobSnapshot, step: Step) -> Step:
    """A deadline has stopped the job, or so we asked: say what Ray says, and ask again (C63)."""
    told = seen.answer
    again = NOTHING
    if isinstance(told, Told):
        if told.status in TERMINAL_JOB_STATUSES:
            return replace(
                step, status=msgspec.structs.replace(step.status, job_status=told.status)
            )
        if seen.now - parse_time(seen.status.end_time or "") >= STOP_PATIENCE:
            again = stop(seen, "it still runs after its deadline")
    waits = step.plan.wait.retry_in if step.plan.wait else None
    soon = min(waits, STOP_PATIENCE) if waits else STOP_PATIENCE
    stages = (*again.stages, *step.plan.stages)
    return replace(step, plan=Plan(stages, Wait("the job to stop", retry_in=soon)))


def _by_rule(seen: JobSnapshot) -> Step:
    found = due(seen.job, seen.now, _achieved(seen), seen.settings)
    if found is not None:
        return stay(seen, do(*_carry_out(seen, found)), **nested_status(seen))
    later = next_after(seen.job, seen.now, seen.settings)
    plan = Plan(wait=Wait("the time of a deletion", retry_in=later)) if later else NOTHING
    return stay(seen, plan, **nested_status(seen))


def _achieved(seen: JobSnapshot) -> frozenset[str]:
    done = {DeletionPolicyType.DELETE_NONE}
    gone = seen.cluster is None or seen.cluster.metadata.deletion_timestamp is not None
    if gone or seen.borrows_cluster:  # what is not ours is not ours to delete
        done |= {DeletionPolicyType.DELETE_CLUSTER, DeletionPolicyType.DELETE_WORKERS}
    elif seen.cluster and all(one.suspend for one in seen.cluster.spec.worker_group_specs):
        done |= {DeletionPolicyType.DELETE_WORKERS}
    return frozenset(done)


def _carry_out(seen: JobSnapshot, deletion: Deletion) -> tuple[Action, ...]:
    meta = seen.job.metadata
    match deletion.policy:
        case DeletionPolicyType.DELETE_SELF:
            return (Delete(RAY_JOBS, meta.key, meta.uid, Cause.DELETE_SELF_BY_RULE, deletion.why),)
        case DeletionPolicyType.DELETE_CLUSTER:
            return (_delete_cluster(seen, Cause.DELETE_CLUSTER_BY_RULE, deletion.why),)
        case DeletionPolicyType.DELETE_WORKERS:
            return (_suspend_workers(seen, deletion.why),)
        case DeletionPolicyType.DELETE_NONE:
            return ()


def _suspend_workers(seen: JobSnapshot, why: str) -> Patch:
    """One JSON patch for all groups: lists cannot be merged in a custom resource."""
    assert seen.cluster is not None
    meta = seen.cluster.metadata
    groups = range(len(seen.cluster.spec.worker_group_specs))
    patch = [
        {"op": "add", "path": f"/spec/workerGroupSpecs/{number}/suspend", "value": True}
        for number in groups
    ]
    return Patch(
        RAY_CLUSTERS,
        meta.key,
        patch,
        Cause.DELETE_WORKERS_BY_RULE,
        why,
        kind="json",
        resource_version=meta.resource_version,
    )


def leave(seen: JobSnapshot) -> Step:
    """Being deleted: one best-effort stop, and the finalizer goes whatever came of it (C64)."""
    meta = seen.job.metadata
    if names.FINALIZER_RAY_JOB not in meta.finalizers:
        return stay(seen)
    kept = [name for name in meta.finalizers if name != names.FINALIZER_RAY_JOB]
    patch = Patch(
        RAY_JOBS,
        Key(meta.namespace, meta.name),
        {"metadata": {"finalizers": kept or None}},
        Cause.REMOVE_FINALIZER,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
    return stay(seen, stop(seen, "the RayJob is deleted").then(do(patch)))
