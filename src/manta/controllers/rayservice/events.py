"""Why the RayService controller does something, and which Event each cause leaves behind."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from manta.reconcile.events import EventTable, Reasons

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
    SUBMIT_CONFIG = "SubmitConfig"
    MOVE_CAPACITY = "MoveCapacity"
    NOTE_SUBMITTED = "NoteSubmitted"
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


def _created(kind: str) -> Reasons:
    return Reasons(
        "Create",
        done=f"Created{kind}",
        failed=f"FailedToCreate{kind}",
        done_note=f"Created {kind} {{key}}",
        failed_note=f"Failed to create {kind} {{key}}: {{error}}",
    )


def _updated(kind: str) -> Reasons:
    return Reasons(
        "Update",
        done=f"Updated{kind}",
        failed=f"FailedToUpdate{kind}",
        done_note=f"Updated {kind} {{key}}: {{why}}",
        failed_note=f"Failed to update {kind} {{key}}: {{error}}",
    )


def _deleted(kind: str) -> Reasons:
    return Reasons(
        "Delete",
        done=f"Deleted{kind}",
        failed=f"FailedToDelete{kind}",
        done_note=f"Deleted {kind} {{key}}: {{why}}",
        failed_note=f"Failed to delete {kind} {{key}}: {{error}}",
    )


EVENTS: EventTable = {
    Cause.ADD_FINALIZER: _NOT_TOLD,
    Cause.REMOVE_FINALIZER: _NOT_TOLD,
    Cause.NOTE_DEADLINE: _NOT_TOLD,
    Cause.NOTE_SUBMITTED: _NOT_TOLD,
    Cause.CREATE_CLUSTER: _created("RayCluster"),
    Cause.UPDATE_CLUSTER: _updated("RayCluster"),
    Cause.ADOPT_CLUSTER: _updated("RayCluster"),
    Cause.DELETE_CLUSTER: _deleted("RayCluster"),
    Cause.HEAD_LABEL: Reasons(
        "Update",
        done="UpdatedHeadPodServeLabel",
        failed="FailedToUpdateHeadPodServeLabel",
        done_note="Updated the serve label of head Pod {key}: {why}",
        failed_note="Failed to update the serve label of head Pod {key}: {error}",
    ),
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
    Cause.CREATE_SERVICE: _created("Service"),
    Cause.UPDATE_SERVICE: _updated("Service"),
    Cause.DELETE_SERVICE: _deleted("Service"),
    Cause.CREATE_GATEWAY: _created("Gateway"),
    Cause.UPDATE_GATEWAY: _updated("Gateway"),
    Cause.DELETE_GATEWAY: _deleted("Gateway"),
    Cause.CREATE_ROUTE: _created("HTTPRoute"),
    Cause.UPDATE_ROUTE: _updated("HTTPRoute"),
    Cause.DELETE_ROUTE: _deleted("HTTPRoute"),
}
