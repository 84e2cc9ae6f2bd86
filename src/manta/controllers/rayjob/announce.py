"""Events that no action leaves behind: what a round found out about the RayJob itself."""

from __future__ import annotations

from collections.abc import Iterator

from manta.api.conditions import find
from manta.api.ray.job import JobConditionType, JobDeploymentStatus, RayJob, RayJobStatus
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.stages.initializing import NO_ENTRYPOINT
from manta.controllers.rayjob.waits import CLUSTER_MISSING, NO_DASHBOARD
from manta.reconcile.events import Told
from manta.rules.job_deletion import unmatched
from manta.rules.validation.job import lacks_entrypoint

WAITS_TOLD = frozenset((CLUSTER_MISSING, NO_DASHBOARD))
"""Waits that only a person can end."""


def announcements(seen: JobSnapshot, new: RayJobStatus) -> Iterator[Told]:
    """Told once, when the status begins to say it."""
    stage, before = new.job_deployment_status, seen.status.job_deployment_status
    if stage == JobDeploymentStatus.VALIDATION_FAILED and new.message != seen.status.message:
        yield Told("Warning", _invalid(seen), "Validate", new.message)
    ready = find(new.conditions, JobConditionType.READY)
    known = find(seen.status.conditions, JobConditionType.READY)
    if ready and ready.reason in WAITS_TOLD and (known is None or known.reason != ready.reason):
        yield Told("Warning", ready.reason, "Reconcile", ready.message)
    if stage == before:
        return
    if stage == JobDeploymentStatus.INITIALIZING and lacks_entrypoint(seen.spec):
        yield Told("Warning", "InvalidRayJobSpec", "Validate", NO_ENTRYPOINT)
    if stage in (JobDeploymentStatus.FAILED, JobDeploymentStatus.RETRYING):
        then = "; a new attempt follows" if stage == JobDeploymentStatus.RETRYING else ""
        note = f"The RayJob has failed ({new.reason}): {new.message}{then}"
        yield Told("Warning", "RayJobFailed", "Reconcile", note)
    if stage == JobDeploymentStatus.COMPLETE:
        yield Told("Normal", "RayJobComplete", "Reconcile", f"Ray says {new.job_status}")
    if kept := unmatched(_with(seen.job, new), seen.settings):
        yield Told("Warning", "NoDeletionRuleMatches", "Cleanup", kept)


def _with(job: RayJob, status: RayJobStatus) -> RayJob:
    return RayJob(metadata=job.metadata, spec=job.spec, status=status)


def _invalid(seen: JobSnapshot) -> str:
    field = seen.violations[0].field
    if field.startswith("metadata"):
        return "InvalidRayJobMetadata"
    return "InvalidRayJobStatus" if field.startswith("status") else "InvalidRayJobSpec"
