"""Why the RayJob controller does something, and which Event each cause leaves behind."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from manta.reconcile.events import EventTable, Reasons

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
    STOP_JOB = "StopJob"
    SUSPENDED = "Suspended"
    RETRY = "Retry"
    HEAD_LOST = "HeadLost"
    DELETE_CLUSTER_BY_RULE = "DeleteClusterByRule"
    DELETE_WORKERS_BY_RULE = "DeleteWorkersByRule"
    DELETE_SELF_BY_RULE = "DeleteSelfByRule"


_NOT_TOLD = Reasons("Update")
_CLUSTER_DELETED = Reasons(
    "Delete",
    done="DeletedRayCluster",
    failed="FailedToDeleteRayCluster",
    done_note="Deleted RayCluster {key}: {why}",
    failed_note="Failed to delete RayCluster {key}: {error}",
)
_SUBMITTER_DELETED = Reasons(
    "Delete",
    done="DeletedRayJobSubmitter",
    failed="FailedToDeleteRayJobSubmitter",
    done_note="Deleted submitter Job {key}: {why}",
    failed_note="Failed to delete submitter Job {key}: {error}",
)

EVENTS: EventTable = {
    Cause.ADD_FINALIZER: _NOT_TOLD,
    Cause.REMOVE_FINALIZER: _NOT_TOLD,
    Cause.NOTE_HEAD: _NOT_TOLD,
    Cause.NEW_ATTEMPT: Reasons(
        "Create",
        done="CreatedRayCluster",
        failed="FailedToCreateRayCluster",
        done_note="Created RayCluster {key}",
        failed_note="Failed to create RayCluster {key}: {error}",
    ),
    Cause.SUBMIT_BY_JOB: Reasons(
        "Create",
        done="CreatedRayJobSubmitter",
        failed="FailedToCreateRayJobSubmitter",
        done_note="Created submitter Job {key}",
        failed_note="Failed to create submitter Job {key}: {error}",
    ),
    Cause.SUBMIT_BY_HTTP: Reasons(
        "Create",
        done="SubmittedRayJob",
        failed="FailedToSubmitRayJob",
        done_note="Submitted the job to the dashboard of {key}",
        failed_note="Failed to submit the job: {error}",
    ),
    Cause.HEAD_SERVICE: Reasons(
        "Create",
        done="CreatedService",
        failed="FailedToCreateService",
        done_note="Created Service {key}",
        failed_note="Failed to create Service {key}: {error}",
    ),
    Cause.HEAD_SERVICE_DRIFT: Reasons(
        "Update",
        done="UpdatedService",
        failed="FailedToUpdateService",
        done_note="Updated Service {key}: {why}",
        failed_note="Failed to update Service {key}: {error}",
    ),
    Cause.STOP_JOB: Reasons(
        "Delete",
        done="StoppedRayJob",
        failed="FailedToStopRayJob",
        done_note="Asked Ray to stop the job: {why}",
        failed_note="Could not ask Ray to stop the job: {error}",
    ),
    Cause.SUSPENDED: _CLUSTER_DELETED,
    Cause.RETRY: _CLUSTER_DELETED,
    Cause.HEAD_LOST: _SUBMITTER_DELETED,
    Cause.DELETE_CLUSTER_BY_RULE: _CLUSTER_DELETED,
    Cause.DELETE_WORKERS_BY_RULE: Reasons(
        "Update",
        done="UpdatedRayCluster",
        failed="FailedToUpdateRayCluster",
        done_note="Suspended the worker groups of RayCluster {key}: {why}",
        failed_note="Failed to suspend the worker groups of RayCluster {key}: {error}",
    ),
    Cause.DELETE_SELF_BY_RULE: Reasons(
        "Delete",
        failed="FailedToDeleteRayJob",
        failed_note="Failed to delete RayJob {key}: {error}",
    ),
}
