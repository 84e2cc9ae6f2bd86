"""A head that is lost takes the job along: that is a failure, and never a silent second run (C56)."""

from __future__ import annotations

from manta.api.conditions import is_true
from manta.api.core import Pod
from manta.api.ray.cluster import ClusterConditionType
from manta.api.ray.job import JobFailedReason, SubmissionMode
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import JOBS
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.step import Step, fail
from manta.manifests.session_guard import OTHER_SESSION_EXIT_CODE
from manta.reconcile.actions import Delete, Patch
from manta.reconcile.plan import NOTHING, Plan, do
from manta.rules.traits import StorageBackend, storage_backend


def lost(seen: JobSnapshot) -> Step | None:
    """The head that had the job is gone, and with it the job (C56). Never run it again unasked."""
    if seen.cluster is None:
        name = seen.status.ray_cluster_name
        return fail(
            seen, JobFailedReason.APP_FAILED, f"RayCluster {name} is gone, and the job with it"
        )
    if seen.mode is SubmissionMode.SIDECAR and seen.head_pod is None:
        why = "Ray head pod not found."  # and it is not made again, whatever was stored
    elif storage_backend(seen.cluster) is not StorageBackend.NONE:
        return None  # the job's record outlives the head: the dashboard will tell
    elif not seen.submitted_to or seen.submitted_to == seen.head:
        return None
    else:
        why = f"the Ray head that ran the job ({seen.submitted_to.partition('/')[0]}) is gone"
    return fail(seen, JobFailedReason.APP_FAILED, why, withdraw_submitter(seen, why))


def met_another_head(seen: JobSnapshot) -> bool:
    """Whether a Pod of the submitter ended because another Ray session answered than its own."""
    if seen.submitter is None:
        return False
    owner = seen.submitter.metadata.uid
    mine = [pod for pod in seen.submitter_pods if _belongs_to(pod, owner)]
    ran = [one for pod in mine for one in pod.status.container_statuses]
    ends = [state.terminated for one in ran for state in (one.state, one.last_state)]
    return any(end is not None and end.exit_code == OTHER_SESSION_EXIT_CODE for end in ends)


def _belongs_to(pod: Pod, owner: str) -> bool:
    controller = pod.metadata.controller
    return controller is not None and controller.uid == owner


def withdraw_submitter(seen: JobSnapshot, why: str) -> Plan:
    """A submitter that is still trying would hand the job to the next head."""
    if seen.mode is SubmissionMode.SIDECAR:
        return _withdraw_sidecar(seen, why)
    if seen.submitter is None or seen.submitter.finished is not None:
        return NOTHING
    meta = seen.submitter.metadata
    return do(Delete(JOBS, meta.key, meta.uid, Cause.HEAD_LOST, why))


def _withdraw_sidecar(seen: JobSnapshot, why: str) -> Plan:
    """A provisioned cluster makes no second head in this mode. One that never came so far would,
    and with it a second submitter: it is suspended, and kept to be looked at."""
    assert seen.cluster is not None
    if is_true(seen.cluster.status.conditions, ClusterConditionType.PROVISIONED):
        return NOTHING
    meta, body = seen.cluster.metadata, {"spec": {"suspend": True}}
    return do(Patch(RAY_CLUSTERS, meta.key, body, Cause.SIDECAR_LOST, why, uid=meta.uid))
