"""RayCronJobs, asynchronously."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Unpack, overload

from manta.api.ray.cronjob import RayCronJob, RayCronJobStatus
from manta.api.ray.job import RayJob
from manta.api.ray.manifest import Document, Manifest
from manta.api.ray.names import LABEL_CRON_JOB_NAME
from manta.api.ray.naming import MAX_RAY_JOB_NAME
from manta.sdk.async_jobs import AsyncJob, AsyncJobs
from manta.sdk.async_objects import AsyncCollection, AsyncObject
from manta.sdk.builders import build_cron_job
from manta.sdk.html import Table
from manta.sdk.options import CronJobOptions

_SUFFIX: Final = 5


class AsyncCronJob(AsyncObject[RayCronJob]):
    """A RayCronJob. `async with cron_job:` deletes it at the end."""

    kind: ClassVar[type[Manifest]] = RayCronJob

    @property
    def status(self) -> RayCronJobStatus:
        """The status, as it was last read."""
        return self.object.status

    async def jobs(self) -> Table[AsyncJob]:
        """The RayJobs of this schedule that still exist."""
        labels = {LABEL_CRON_JOB_NAME: self.name}
        return await AsyncJobs(self._session).list(namespace=self.namespace, labels=labels)

    async def trigger(self) -> AsyncJob:
        """Run the job now, beside the schedule. The RayJob belongs to the caller, not to the schedule."""
        return await AsyncJobs(self._session).create(self._triggered(await self.refresh()))

    @staticmethod
    def _triggered(cron_job: AsyncCronJob) -> Document:
        suffix = os.urandom(3).hex()[:_SUFFIX]
        stem = cron_job.name[: MAX_RAY_JOB_NAME - _SUFFIX - 1].rstrip("-")
        resource = RayJob.resource()
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": f"{stem}-{suffix}", "namespace": cron_job.namespace},
            "spec": cron_job.document["spec"]["jobTemplate"],
        }

    def _columns(self) -> dict[str, str]:
        spec = self.object.spec
        return {
            "SCHEDULE": spec.schedule,
            "TIME ZONE": spec.time_zone or "",
            "SUSPENDED": "yes" if spec.suspend else "no",
            "LAST": self.status.last_schedule_time or "",
        }


class AsyncCronJobs(AsyncCollection[RayCronJob, AsyncCronJob]):
    """All RayCronJobs."""

    handle: ClassVar[type[AsyncObject[Any]]] = AsyncCronJob
    _build = staticmethod(build_cron_job)

    @overload
    async def create(self, manifest: RayCronJob | Mapping[str, Any] | str, /) -> AsyncCronJob: ...

    @overload
    async def create(self, /, **options: Unpack[CronJobOptions]) -> AsyncCronJob: ...

    async def create(
        self, manifest: RayCronJob | Mapping[str, Any] | str | None = None, /, **options: Any
    ) -> AsyncCronJob:
        """Create a RayCronJob from arguments (`CronJobOptions`) or from a manifest.

        Raises InvalidValue and AlreadyExists.
        """
        return await self.create_from(manifest, options)
