"""The snapshot of a CronJob."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from manta.localplane.builtin.job.verdict import is_finished
from manta.localplane.builtin.views import Job
from manta.localplane.builtin.workload_views import CronJob


@dataclass(frozen=True, slots=True)
class CronJobSnapshot:
    cron_job: CronJob
    jobs: tuple[Job, ...]
    """The Jobs that it controls."""
    now: datetime

    @property
    def active(self) -> tuple[Job, ...]:
        """Jobs that have not finished, the oldest first."""
        found = [job for job in self.jobs if not is_finished(job)]
        return tuple(sorted(found, key=by_age))

    @property
    def finished(self) -> tuple[Job, ...]:
        return tuple(sorted((job for job in self.jobs if is_finished(job)), key=by_age))


def by_age(job: Job) -> tuple[str, str]:
    meta = job.metadata
    return job.status.start_time or meta.creation_timestamp, meta.name
