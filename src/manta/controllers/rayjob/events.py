"""The causes of the RayJob controller's actions, and the Event of each."""

from __future__ import annotations

from typing import Final

from manta.reconcile.causes import ONLY_FAILURES, ActionCause, Reasons, created, deleted, updated

CONTROLLER: Final = "rayjob-controller"


class Cause(ActionCause):
    ADD_FINALIZER = ONLY_FAILURES
    REMOVE_FINALIZER = ONLY_FAILURES
    NEW_ATTEMPT = created("RayCluster")
    SUBMIT_BY_JOB = created("RayJobSubmitter", "submitter Job")
    SUBMIT_BY_HTTP = Reasons(
        "Create",
        done="SubmittedRayJob",
        failed="FailedToSubmitRayJob",
        done_note="Submitted the job to the dashboard of {key}",
        failed_note="Failed to submit the job: {error}",
    )
    NOTE_HEAD = ONLY_FAILURES
    HEAD_SERVICE = created("Service")
    HEAD_SERVICE_DRIFT = updated("Service")
    DELETE_HEAD_SERVICE = deleted("Service")
    POD_GROUP = created("PodGroup")
    POD_GROUP_DRIFT = updated("PodGroup")
    POD_GROUP_CLEANUP = Reasons(
        "Cleanup",
        done="BatchSchedulerCleanedUp",
        failed="FailedToCleanupBatchScheduler",
        done_note="Cleaned up batch scheduler resources: PodGroup {key}",
        failed_note="Failed to clean up batch scheduler resources: PodGroup {key}: {error}",
    )
    STOP_JOB = Reasons(
        "Delete",
        done="StoppedRayJob",
        failed="FailedToStopRayJob",
        done_note="Asked Ray to stop the job: {why}",
        failed_note="Could not ask Ray to stop the job: {error}",
    )
    SUSPENDED = deleted("RayCluster")
    RETRY = deleted("RayCluster")
    DELETE_SUBMITTER = deleted("RayJobSubmitter", "submitter Job")
    HEAD_LOST = deleted("RayJobSubmitter", "submitter Job")
    SIDECAR_LOST = updated("RayCluster")
