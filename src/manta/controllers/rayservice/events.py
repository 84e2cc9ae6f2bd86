"""Why the RayService controller does something, and which Event each cause leaves behind."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from manta.reconcile.events import EventTable, Reasons, created, deleted, updated

CONTROLLER: Final = "rayservice-controller"


class Cause(StrEnum):
    ADD_FINALIZER = "AddFinalizer"
    REMOVE_FINALIZER = "RemoveFinalizer"
    CREATE_CLUSTER = "CreateCluster"
    UPDATE_CLUSTER = "UpdateCluster"
    ADOPT_CLUSTER = "AdoptCluster"
    NOTE_DEADLINE = "NoteDeadline"
    DELETE_CLUSTER = "DeleteCluster"
    HEAD_LABEL = "HeadLabel"
    REPLACE_WORKER = "ReplaceWorker"
    SUBMIT_CONFIG = "SubmitConfig"
    MOVE_CAPACITY = "MoveCapacity"
    CREATE_SERVICE = "CreateService"
    UPDATE_SERVICE = "UpdateService"
    DELETE_SERVICE = "DeleteService"
    CREATE_GATEWAY = "CreateGateway"
    UPDATE_GATEWAY = "UpdateGateway"
    DELETE_GATEWAY = "DeleteGateway"
    CREATE_ROUTE = "CreateRoute"
    UPDATE_ROUTE = "UpdateRoute"
    DELETE_ROUTE = "DeleteRoute"


_NOT_TOLD = Reasons("Update")


EVENTS: EventTable = {
    Cause.ADD_FINALIZER: _NOT_TOLD,
    Cause.REMOVE_FINALIZER: _NOT_TOLD,
    Cause.NOTE_DEADLINE: _NOT_TOLD,
    Cause.CREATE_CLUSTER: created("RayCluster"),
    Cause.UPDATE_CLUSTER: updated("RayCluster"),
    Cause.ADOPT_CLUSTER: updated("RayCluster"),
    Cause.DELETE_CLUSTER: deleted("RayCluster"),
    Cause.HEAD_LABEL: Reasons(
        "Update",
        done="UpdatedHeadPodServeLabel",
        failed="FailedToUpdateHeadPodServeLabel",
        done_note="Updated the serve label of head Pod {key}: {why}",
        failed_note="Failed to update the serve label of head Pod {key}: {error}",
    ),
    Cause.REPLACE_WORKER: deleted("WorkerPod", "worker Pod"),
    Cause.SUBMIT_CONFIG: Reasons(
        "Update",
        done="UpdatedServeApplications",
        failed="FailedToUpdateServeApplications",
        done_note="Submitted the Serve config to RayCluster {key}: {why}",
        failed_note="Failed to submit the Serve config to RayCluster {key}: {error}",
    ),
    Cause.MOVE_CAPACITY: Reasons(
        "Update",
        done="UpdatedServeTargetCapacity",
        failed="FailedToUpdateTargetCapacity",
        done_note="Updated the target capacity of RayCluster {key}: {why}",
        failed_note="Failed to update the target capacity of RayCluster {key}: {error}",
    ),
    Cause.CREATE_SERVICE: created("Service"),
    Cause.UPDATE_SERVICE: updated("Service"),
    Cause.DELETE_SERVICE: deleted("Service"),
    Cause.CREATE_GATEWAY: created("Gateway"),
    Cause.UPDATE_GATEWAY: updated("Gateway"),
    Cause.DELETE_GATEWAY: deleted("Gateway"),
    Cause.CREATE_ROUTE: created("HTTPRoute"),
    Cause.UPDATE_ROUTE: updated("HTTPRoute"),
    Cause.DELETE_ROUTE: deleted("HTTPRoute"),
}
