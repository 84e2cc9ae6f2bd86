"""The Events of the DaemonSet controller: one line per cause. An empty reason records none."""

from __future__ import annotations

from manta.localplane.builtin.daemonset.plan import Cause
from manta.reconcile.events import EventTable, Reasons

_DELETED = Reasons(
    "Delete",
    "SuccessfulDelete",
    "FailedDelete",
    "Deleted pod: {key.name}",
    "Error deleting: {error}",
)

EVENTS: EventTable = {
    Cause.REVISION: Reasons("Create", failed="FailedCreate"),
    Cause.HISTORY: Reasons("Delete"),
    Cause.CREATE: Reasons(
        "Create",
        "SuccessfulCreate",
        "FailedCreate",
        "Created pod: {key.name}",
        "Error creating: {error}",
    ),
    Cause.REPLACE: Reasons(
        "Delete",
        "FailedDaemonPod",
        "FailedDelete",
        "Found failed daemon pod {key} on {why}, will try to kill it",
        "Error deleting: {error}",
        done_type="Warning",
    ),
    Cause.SURPLUS: _DELETED,
    Cause.UPDATE: _DELETED,
    Cause.ADOPT: Reasons("Adopt"),
    Cause.LET_GO: Reasons("Release"),
}
