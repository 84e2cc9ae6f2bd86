"""Gang scheduling of a RayJob: the scheduler places its cluster and its submitter all together.

Only Volcano has a PodGroup for the RayJob itself. The operator creates it before the cluster, keeps it
at the size of the cluster, and empties it when the cluster is gone.
"""

from __future__ import annotations

from typing import Any

from manta.api.ray import names
from manta.api.ray.job import SubmissionMode
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.facts import ACTIVE, is_cluster_live
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.submission import planned_cluster
from manta.manifests.containers import Json
from manta.manifests.gang import gang_scheduler
from manta.manifests.gang.members import Gang, GangScheduler, job_gang, pod_group_drift
from manta.manifests.submitter import submitter_template
from manta.reconcile.actions import Create, Patch
from manta.reconcile.plan import NOTHING, Plan, do

EMPTY = {"minMember": 0, "minResources": {}}


def plan_gang(snapshot: JobSnapshot) -> Plan:
    scheduler = _scheduler(snapshot)
    groups = scheduler.pod_groups if scheduler else None
    if groups is None or snapshot.violations:
        return NOTHING
    gang = _gang(snapshot)
    if snapshot.job.metadata.deletion_timestamp or not groups.name(gang):
        return NOTHING
    active = snapshot.stage in ACTIVE
    if snapshot.pod_group is None:
        create = Create(groups.resource, groups.build(gang), Cause.POD_GROUP)
        return do(create) if active else NOTHING
    wanted = groups.build(gang)["spec"] if active or is_cluster_live(snapshot) else EMPTY
    drift = pod_group_drift(wanted, snapshot.pod_group)
    meta, why = snapshot.pod_group.metadata, "the size of the gang changed"
    cause = Cause.POD_GROUP_DRIFT if active else Cause.POD_GROUP_CLEANUP
    patch = Patch(groups.resource, meta.key, drift, cause, why, uid=meta.uid)
    return do(patch, independent=True) if drift else NOTHING


def ganged_cluster(snapshot: JobSnapshot, manifest: Json) -> Json:
    """Add the metadata that puts the Pods of the cluster into one gang with the submitter."""
    scheduler = _scheduler(snapshot)
    if scheduler is None or snapshot.mode is not SubmissionMode.K8S_JOB:
        return manifest
    metadata = scheduler.cluster_metadata(_gang(snapshot))
    meta = manifest["metadata"]
    merged = {field: {**(meta.get(field) or {}), **found} for field, found in metadata.items()}
    return {**manifest, "metadata": {**meta, **merged}}


def ganged_submitter(snapshot: JobSnapshot, template: Json) -> Json:
    scheduler = _scheduler(snapshot)
    if scheduler is None:
        return template
    return scheduler.member_pod(_gang(snapshot), template, names.SUBMITTER_GROUP)


def _scheduler(snapshot: JobSnapshot) -> GangScheduler | None:
    """None also for a borrowed cluster, whose Pods are scheduled already."""
    return None if snapshot.borrows_cluster else gang_scheduler(snapshot.settings)


def _gang(snapshot: JobSnapshot) -> Gang:
    """The live cluster gives the size. A sidecar submitter is already part of its head Pod."""
    cluster = snapshot.cluster or planned_cluster(snapshot)
    submitter: Any = None
    inside = snapshot.mode is SubmissionMode.SIDECAR and snapshot.cluster is not None
    if snapshot.stage in ACTIVE and not inside:
        submitter = submitter_template(snapshot.job, cluster)
    return job_gang(snapshot.job, cluster.spec, submitter)
