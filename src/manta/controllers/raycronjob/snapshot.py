"""All that a round of a RayCronJob may know."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec

from manta.api.meta import Condition, ObjectMeta, View
from manta.api.ray.job import JobDeploymentStatus, JobStatus
from manta.api.ray.names import ANNOTATION_CRON_SCHEDULED_TIME
from manta.api.times import parse_optional_time
from manta.rules.settings import Settings
from manta.rules.validation.violation import Violation

_EMPTY_TEMPLATE = msgspec.Raw(b"{}")


class CronSpec(View, frozen=True, kw_only=True):
    schedule: str = ""
    time_zone: str | None = None
    suspend: bool | None = None
    job_template: msgspec.Raw = _EMPTY_TEMPLATE
    """As the user wrote it: fields that we do not know reach the RayJob untouched."""
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronStatus(View, frozen=True, kw_only=True):
    last_schedule_time: str | None = None
    conditions: tuple[Condition, ...] = ()


class CronJob(View, frozen=True, kw_only=True):
    """A RayCronJob, as this controller caches it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CronSpec = CronSpec()
    status: CronStatus = CronStatus()


class _ChildStatus(View, frozen=True, kw_only=True):
    job_status: str = ""
    job_deployment_status: str = ""


class ChildJob(View, frozen=True, kw_only=True):
    """A RayJob that a RayCronJob made: only how it ended is of interest."""

    metadata: ObjectMeta = ObjectMeta()
    status: _ChildStatus = _ChildStatus()

    @property
    def tick(self) -> datetime | None:
        """The tick that it serves; None when its annotation was tampered with."""
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
    cron: CronJob
    children: tuple[ChildJob, ...]
    """The RayJobs that this very RayCronJob controls."""
    now: datetime
    settings: Settings
    violations: tuple[Violation, ...] = ()
    """What is wrong with the spec; then nothing is done but to say so."""
