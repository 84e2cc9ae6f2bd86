"""RayCronJobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack, overload

from manta.api.ray.cronjob import RayCronJob, RayCronJobStatus
from manta.sdk.async_cron_jobs import AsyncCronJob, AsyncCronJobs
from manta.sdk.html import Table
from manta.sdk.jobs import Job
from manta.sdk.objects import Collection, Object
from manta.sdk.options import CronJobOptions


class CronJob(Object[RayCronJob, AsyncCronJob]):
    """A RayCronJob. `with cron_job:` deletes it at the end."""

    @property
    def status(self) -> RayCronJobStatus:
        """The status, as it was last read."""
        return self._core.status

    def jobs(self) -> Table[Job]:
        """The RayJobs of this schedule that still exist."""
        found = self._loop.run(self._core.jobs())
        return Table([Job(self._loop, one) for one in found], [one.row() for one in found])

    def trigger(self) -> Job:
        """Run the job now, beside the schedule. The RayJob belongs to the caller, not to the schedule."""
        return Job(self._loop, self._loop.run(self._core.trigger()))


class CronJobs(Collection[RayCronJob, CronJob, AsyncCronJobs]):
    """All RayCronJobs."""

    handle: ClassVar[type[Object[Any, Any]]] = CronJob

    @overload
    def create(self, manifest: RayCronJob | Mapping[str, Any] | str, /) -> CronJob: ...

    @overload
    def create(self, /, **options: Unpack[CronJobOptions]) -> CronJob: ...

    def create(
        self, manifest: RayCronJob | Mapping[str, Any] | str | None = None, /, **options: Any
    ) -> CronJob:
        """Create a RayCronJob from arguments (`CronJobOptions`) or from a manifest.

        Raises InvalidValue and AlreadyExists.
        """
        return self._handle(self._loop.run(self._core.create_from(manifest, options)))
