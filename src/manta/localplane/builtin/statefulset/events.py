"""The Events of the StatefulSet controller: one line per cause. An empty reason records none."""

from __future__ import annotations

from manta.localplane.builtin.statefulset.plan import Cause
from manta.reconcile.events import EventTable, Reasons

_DELETED = Reasons(
    "Delete",
    "SuccessfulDelete",
    "FailedDelete",
    "delete Pod {key.name} successful",
    "delete Pod {key.name} failed error: {error}",
)

EVENTS: EventTable = {
    Cause.REVISION: Reasons("Create", failed="FailedCreate"),
    Cause.HISTORY: Reasons("Delete"),
    Cause.RETENTION: Reasons("Update"),
    Cause.CLAIM: Reasons(
        "Create",
        "SuccessfulCreate",
        "FailedCreate",
        "create Claim {key.name} successful",
        "create Claim {key.name} failed error: {error}",
    ),
    Cause.CREATE: Reasons(
        "Create",
        "SuccessfulCreate",
        "FailedCreate",
        "create Pod {key.name} successful",
        "create Pod {key.name} failed error: {error}",
    ),
    Cause.REPLACE: Reasons(
        "Delete",
        "RecreatingTerminatedPod",
        "FailedDelete",
        "StatefulSet is recreating terminated Pod {key.name}",
        "delete Pod {key.name} failed error: {error}",
    ),
    Cause.SURPLUS: _DELETED,
    Cause.UPDATE: _DELETED,
    Cause.ADOPT: Reasons("Adopt"),
    Cause.LET_GO: Reasons("Release"),
}
