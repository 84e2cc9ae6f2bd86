"""A RayJob's gang: its cluster, and the room for its submitter, are scheduled all together.

Only Volcano has a group for the RayJob itself. It is there before the cluster, has the size of the
cluster while there is one, and gives its room back at the end.
"""

from __future__ import annotations

from typing import Any

from manta.api.ray import names
from manta.api.ray.job import JobDeploymentStatus as Stage
from manta.api.ray.job import SubmissionMode
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.handover import planned_cluster
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.manifests.containers import Json
from manta.manifests.gang import gang_scheduler
from manta.manifests.gang.members import GangScheduler, Leader, job_leader, pod_group_drift
from manta.manifests.submitter import submitter_template
from manta.reconcile.actions import Create, Patch
from manta.reconcile.plan import NOTHING, Plan, do

BUSY = (Stage.INITIALIZING, Stage.WAITING, Stage.RUNNING)
EMPTY = {"minMember": 0, "minResources": {}}


def plan_gang(seen: JobSnapshot) -> Plan:
    scheduler = _scheduler(seen)
    groups = scheduler.pod_groups if scheduler else None
    if groups is None or seen.violations:
        return NOTHING
    leader = _leader(seen)
    if seen.job.metadata.deletion_timestamp or not groups.name(leader):
        return NOTHING
    busy = seen.stage in BUSY
    if seen.pod_group is None:
        made = Create(groups.resource, groups.build(leader), Cause.POD_GROUP)
        return do(made) if busy else NOTHING
    wanted = groups.build(leader)["spec"] if busy or _lives_on(seen) else EMPTY
    drift = pod_group_drift(wanted, seen.pod_group)
    meta, why = seen.pod_group.metadata, "the gang has another size now"
    cause = Cause.POD_GROUP_DRIFT if busy else Cause.POD_GROUP_CLEANUP
    patch = Patch(groups.resource, meta.key, drift, cause, why, uid=meta.uid)
    return do(patch, independent=True) if drift else NOTHING


def ganged_cluster(seen: JobSnapshot, manifest: Json) -> Json:
    """The cluster hands on to its Pods what they need to be in one gang with the submitter."""
    scheduler = _scheduler(seen)
    if scheduler is None or seen.mode is not SubmissionMode.K8S_JOB:
        return manifest
    marks = scheduler.cluster_marks(_leader(seen))
    meta = manifest["metadata"]
    merged = {field: {**(meta.get(field) or {}), **found} for field, found in marks.items()}
    return {**manifest, "metadata": {**meta, **merged}}


def ganged_submitter(seen: JobSnapshot, template: Json) -> Json:
    scheduler = _scheduler(seen)
    if scheduler is None:
        return template
    return scheduler.mark(_leader(seen), template, names.SUBMITTER_GROUP)


def _scheduler(seen: JobSnapshot) -> GangScheduler | None:
    """None also for a borrowed cluster: whose Pods were scheduled long ago."""
    return None if seen.borrows_cluster else gang_scheduler(seen.settings)


def _lives_on(seen: JobSnapshot) -> bool:
    return seen.cluster is not None and seen.cluster.metadata.deletion_timestamp is None


def _leader(seen: JobSnapshot) -> Leader:
    """A live cluster says best what it needs; a sidecar that submits is then a part of it."""
    cluster = seen.cluster or planned_cluster(seen)
    submitter: Any = None
    inside = seen.mode is SubmissionMode.SIDECAR and seen.cluster is not None
    if seen.stage in BUSY and not inside:
        submitter = submitter_template(seen.job, cluster)
    return job_leader(seen.job, cluster.spec, submitter)
