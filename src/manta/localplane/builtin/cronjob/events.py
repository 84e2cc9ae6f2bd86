"""The Events of the CronJob controller: one line per cause."""

from __future__ import annotations

from manta.localplane.builtin.cronjob.plan import Cause
from manta.reconcile.events import EventTable, Reasons

_DELETED = Reasons(
    "Delete",
    "SuccessfulDelete",
    "FailedDelete",
    "Deleted job {key.name}",
    "Deleted job: {error}",
)

EVENTS: EventTable = {
    Cause.START: Reasons(
        "Create",
        "SuccessfulCreate",
        "FailedCreate",
        "Created job {key.name}",
        "Error creating job: {error}",
    ),
    Cause.REPLACE: _DELETED,
    Cause.HISTORY: _DELETED,
}
