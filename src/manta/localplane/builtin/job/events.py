"""The Events of the Job controller: one line per cause. An empty reason records none."""

from __future__ import annotations

from collections.abc import Iterator

from manta.localplane.builtin.views import Job, JobStatus
from manta.reconcile.events import Event


def status_events(job: Job, status: JobStatus) -> Iterator[Event]:
    """How the Job ended, and that it was suspended or resumed."""
    known = {(one.type, one.status) for one in job.status.conditions or ()}
    for one in status.conditions or ():
        if (one.type, one.status) in known:
            continue
        if one.type == "Complete":
            yield Event("Normal", "Completed", "Completed", "Job completed")
        elif one.type == "Failed":
            yield Event("Warning", one.reason, one.reason, one.message)
        elif one.type == "Suspended":
            reason = "Suspended" if one.status == "True" else "Resumed"
            yield Event("Normal", reason, reason, one.message)
