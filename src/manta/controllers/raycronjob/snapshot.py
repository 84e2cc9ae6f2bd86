"""The snapshot of a RayCronJob, on which its pure phases work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from manta.api.meta import Object, View
from manta.api.ray.cronjob import RayCronJob
from manta.api.ray.job import JobDeploymentStatus, JobStatus
from manta.api.ray.names import ANNOTATION_CRON_SCHEDULED_TIME
from manta.api.times import parse_optional_time
from manta.rules.settings import Settings
from manta.rules.validation.violation import Violation


class _ChildStatus(View, frozen=True, kw_only=True):
    job_status: str = ""
    job_deployment_status: str = ""


class ChildJob(Object, frozen=True, kw_only=True):
    """A RayJob that a RayCronJob created, with the fields that say how it ended."""

    status: _ChildStatus = _ChildStatus()

    @property
    def tick(self) -> datetime | None:
        """The tick that it serves; None when its annotation is missing or malformed."""
        try:
            return parse_optional_time(
                self.metadata.annotations.get(ANNOTATION_CRON_SCHEDULED_TIME)
            )
        except ValueError:
            return None

    @property
    def finished(self) -> bool:
        return self.status.job_deployment_status in _FINISHED

    @property
    def succeeded(self) -> bool:
        return self.finished and self.status.job_status == JobStatus.SUCCEEDED


_FINISHED = frozenset(
    (
        JobDeploymentStatus.COMPLETE,
        JobDeploymentStatus.FAILED,
        JobDeploymentStatus.VALIDATION_FAILED,
    )
)


@dataclass(frozen=True, slots=True)
class CronSnapshot:
    cron: RayCronJob
    children: tuple[ChildJob, ...]
    """The RayJobs that this very RayCronJob controls."""
    now: datetime
    settings: Settings
    violations: tuple[Violation, ...] = ()
    """What is invalid in the spec. Then no RayJob is created."""
