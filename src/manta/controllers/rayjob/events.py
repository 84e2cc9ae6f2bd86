"""Why the RayJob controller does something, and which Event each cause leaves behind."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from manta.reconcile.events import EventTable, Reasons, created, deleted, updated

CONTROLLER: Final = "rayjob-controller"


class Cause(StrEnum):
    ADD_FINALIZER = "AddFinalizer"
    REMOVE_FINALIZER = "RemoveFinalizer"
    NEW_ATTEMPT = "NewAttempt"
    SUBMIT_BY_JOB = "SubmitByJob"
    SUBMIT_BY_HTTP = "SubmitByHttp"
    NOTE_HEAD = "NoteHead"
    HEAD_SERVICE = "HeadService"
    HEAD_SERVICE_DRIFT = "HeadServiceDrift"
    POD_GROUP = "PodGroup"
    POD_GROUP_DRIFT = "PodGroupDrift"
    POD_GROUP_CLEANUP = "PodGroupCleanup"
    STOP_JOB = "StopJob"
    SUSPENDED = "Suspended"
    RETRY = "Retry"
    SUBMITTER_GIVEN_BACK = "SubmitterGivenBack"
    HEAD_LOST = "HeadLost"
    SIDECAR_LOST = "SidecarLost"
    DELETE_CLUSTER_BY_RULE = "DeleteClusterByRule"
    DELETE_WORKERS_BY_RULE = "DeleteWorkersByRule"
    DELETE_SELF_BY_RULE = "DeleteSelfByRule"


_NOT_TOLD = Reasons("Update")

EVENTS: EventTable = {
    Cause.ADD_FINALIZER: _NOT_TOLD,
    Cause.REMOVE_FINALIZER: _NOT_TOLD,
    Cause.NOTE_HEAD: _NOT_TOLD,
    Cause.NEW_ATTEMPT: created("RayCluster"),
    Cause.SUBMIT_BY_JOB: created("RayJobSubmitter", "submitter Job"),
    Cause.SUBMIT_BY_HTTP: Reasons(
        "Create",
        done="SubmittedRayJob",
        failed="FailedToSubmitRayJob",
        done_note="Submitted the job to the dashboard of {key}",
        failed_note="Failed to submit the job: {error}",
    ),
    Cause.HEAD_SERVICE: created("Service"),
    Cause.HEAD_SERVICE_DRIFT: updated("Service"),
    Cause.POD_GROUP: created("PodGroup"),
    Cause.POD_GROUP_DRIFT: updated("PodGroup"),
    Cause.POD_GROUP_CLEANUP: Reasons(
        "Cleanup",
        done="BatchSchedulerCleanedUp",
        failed="FailedToCleanupBatchScheduler",
        done_note="Cleaned up batch scheduler resources: PodGroup {key}",
        failed_note="Failed to clean up batch scheduler resources: PodGroup {key}: {error}",
    ),
    Cause.STOP_JOB: Reasons(
        "Delete",
        done="StoppedRayJob",
        failed="FailedToStopRayJob",
        done_note="Asked Ray to stop the job: {why}",
        failed_note="Could not ask Ray to stop the job: {error}",
    ),
    Cause.SUSPENDED: deleted("RayCluster"),
    Cause.RETRY: deleted("RayCluster"),
    Cause.SUBMITTER_GIVEN_BACK: deleted("RayJobSubmitter", "submitter Job"),
    Cause.HEAD_LOST: deleted("RayJobSubmitter", "submitter Job"),
    Cause.SIDECAR_LOST: updated("RayCluster"),
    Cause.DELETE_CLUSTER_BY_RULE: deleted("RayCluster"),
    Cause.DELETE_WORKERS_BY_RULE: updated("RayCluster", "worker groups of RayCluster"),
    Cause.DELETE_SELF_BY_RULE: Reasons(
        "Delete",
        failed="FailedToDeleteRayJob",
        failed_note="Failed to delete RayJob {key}: {error}",
    ),
}
