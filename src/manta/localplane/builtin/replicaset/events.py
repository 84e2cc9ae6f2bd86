"""The Events of the ReplicaSet controller: one line per cause. An empty reason is not told, on purpose."""

from __future__ import annotations

from manta.localplane.builtin.replicaset.plan import Cause
from manta.reconcile.events import EventTable, Reasons

EVENTS: EventTable = {
    Cause.CREATE: Reasons(
        "Create",
        "SuccessfulCreate",
        "FailedCreate",
        "Created pod: {key.name}",
        "Error creating: {error}",
    ),
    Cause.SURPLUS: Reasons(
        "Delete",
        "SuccessfulDelete",
        "FailedDelete",
        "Deleted pod: {key.name}",
        "Error deleting: {error}",
    ),
    Cause.ADOPT: Reasons("Adopt"),
    Cause.LET_GO: Reasons("Release"),
}
