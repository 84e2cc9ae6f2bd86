"""The Events of the Job controller: one line per cause. An empty reason is not told, on purpose."""

from __future__ import annotations

from manta.localplane.builtin.job.plan import Cause
from manta.reconcile.events import EventTable, Reasons

EVENTS: EventTable = {
    Cause.RELEASE: Reasons("Release"),
    Cause.CREATE: Reasons(
        "Create",
        "SuccessfulCreate",
        "FailedCreate",
        "Created pod: {key.name}",
        "Error creating: {error}",
    ),
    **{
        cause: Reasons(
            "Delete",
            "SuccessfulDelete",
            "FailedDelete",
            "Deleted pod: {key.name}",
            "Error deleting: {error}",
        )
        for cause in (Cause.SURPLUS, Cause.DECIDED, Cause.SUSPENDED)
    },
    Cause.EXPIRED: Reasons("Delete"),
}
