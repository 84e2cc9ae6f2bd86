"""The causes of the RayService controller's actions, and the Event of each."""

from __future__ import annotations

from typing import Final

from manta.reconcile.causes import ONLY_FAILURES, ActionCause, Reasons, created, deleted, updated

CONTROLLER: Final = "rayservice-controller"


class Cause(ActionCause):
    ADD_FINALIZER = ONLY_FAILURES
    REMOVE_FINALIZER = ONLY_FAILURES
    CREATE_CLUSTER = created("RayCluster")
    UPDATE_CLUSTER = updated("RayCluster")
    ADOPT_CLUSTER = updated("RayCluster")
    NOTE_DEADLINE = ONLY_FAILURES
    DELETE_CLUSTER = deleted("RayCluster")
    HEAD_LABEL = updated("HeadPodServeLabel", "the serve label of head Pod")
    SERVING_LABEL = ONLY_FAILURES
    RESIZE_CLUSTER = updated("RayCluster")
    REJECT_SPEC = Reasons(
        "Update",
        done="RolledBackCanary",
        failed="FailedToRollBackCanary",
        done_note="Traffic goes back to RayCluster {key}: {why}",
        failed_note="Failed to record at RayCluster {key} that the canary is rolled back: {error}",
        done_type="Warning",
    )
    REPLACE_WORKER = deleted("WorkerPod", "worker Pod")
    SUBMIT_CONFIG = Reasons(
        "Update",
        done="UpdatedServeApplications",
        failed="FailedToUpdateServeApplications",
        done_note="Submitted the Serve config to RayCluster {key}: {why}",
        failed_note="Failed to submit the Serve config to RayCluster {key}: {error}",
    )
    MOVE_CAPACITY = Reasons(
        "Update",
        done="UpdatedServeTargetCapacity",
        failed="FailedToUpdateTargetCapacity",
        done_note="Updated the target capacity of RayCluster {key}: {why}",
        failed_note="Failed to update the target capacity of RayCluster {key}: {error}",
    )
    CREATE_SERVICE = created("Service")
    UPDATE_SERVICE = updated("Service")
    DELETE_SERVICE = deleted("Service")
    CREATE_GATEWAY = created("Gateway")
    UPDATE_GATEWAY = updated("Gateway")
    DELETE_GATEWAY = deleted("Gateway")
    CREATE_ROUTE = created("HTTPRoute")
    UPDATE_ROUTE = updated("HTTPRoute")
    DELETE_ROUTE = deleted("HTTPRoute")
