"""Events about the RayJob itself, which no action emits."""

from __future__ import annotations

from collections.abc import Iterator

from manta.api.conditions import find
from manta.api.ray.job import JobConditionType, JobDeploymentStatus, RayJob, RayJobStatus
from manta.controllers.rayjob.facts import NO_ENTRYPOINT
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.wait_reasons import CLUSTER_MISSING, NO_DASHBOARD
from manta.reconcile.events import Event
from manta.rules.job_deletion import unmatched
from manta.rules.validation.job import lacks_entrypoint

WAITS_WITH_EVENT = frozenset((CLUSTER_MISSING, NO_DASHBOARD))
"""Waits that only a user can end."""


def status_events(snapshot: JobSnapshot, new: RayJobStatus) -> Iterator[Event]:
    """Emit each Event once: when the status changes to what it says."""
    stage, before = new.job_deployment_status, snapshot.status.job_deployment_status
    if stage == JobDeploymentStatus.VALIDATION_FAILED and new.message != snapshot.status.message:
        yield Event("Warning", _invalid(snapshot), "Validate", new.message)
    ready = find(new.conditions, JobConditionType.READY)
    known = find(snapshot.status.conditions, JobConditionType.READY)
    is_new = ready and (known is None or known.reason != ready.reason)
    if ready and is_new and ready.reason in WAITS_WITH_EVENT:
        yield Event("Warning", ready.reason, "Reconcile", ready.message)
    if stage == before:
        return
    if stage == JobDeploymentStatus.INITIALIZING and lacks_entrypoint(snapshot.spec):
        yield Event("Warning", "InvalidRayJobSpec", "Validate", NO_ENTRYPOINT)
    if stage in (JobDeploymentStatus.FAILED, JobDeploymentStatus.RETRYING):
        then = "; a new attempt follows" if stage == JobDeploymentStatus.RETRYING else ""
        note = f"The RayJob has failed ({new.reason}): {new.message}{then}"
        yield Event("Warning", "RayJobFailed", "Reconcile", note)
    if stage == JobDeploymentStatus.COMPLETE:
        yield Event("Normal", "RayJobComplete", "Reconcile", f"Ray reports {new.job_status}")
    if kept := unmatched(_with(snapshot.job, new), snapshot.settings):
        yield Event("Warning", "NoDeletionRuleMatches", "Cleanup", kept)


def _with(job: RayJob, status: RayJobStatus) -> RayJob:
    return RayJob(metadata=job.metadata, spec=job.spec, status=status)


def _invalid(snapshot: JobSnapshot) -> str:
    field = snapshot.violations[0].field
    if field.startswith("metadata"):
        return "InvalidRayJobMetadata"
    return "InvalidRayJobStatus" if field.startswith("status") else "InvalidRayJobSpec"
