"""RayJobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, Unpack

from manta.api.ray.job import RayJob, RayJobStatus
from manta.sdk.async_jobs import AsyncJob, AsyncJobs, has_finished
from manta.sdk.objects import Collection, Object
from manta.sdk.options import JobOptions
from manta.sdk.progress import Progress


class Job(Object[RayJob, AsyncJob]):
    """A RayJob. `with job:` deletes it at the end."""

    @property
    def status(self) -> RayJobStatus:
        """The status, as it was last read."""
        return self._core.status

    @property
    def finished(self) -> bool:
        """Whether the job had ended when it was last read."""
        return self._core.finished

    def wait(self, *, timeout: float | None = None, progress: Progress = None) -> Self:
        """Wait until the job has ended, successfully or not. Raises WaitTimeout and Deleted."""
        self._shown(self._core.reasons(has_finished, timeout, "the end of the job"), progress)
        return self

    def result(self, *, timeout: float | None = None, progress: Progress = None) -> RayJobStatus:
        """Wait for the end, and return the last status. Raises JobFailed unless the job succeeded."""
        self.wait(timeout=timeout, progress=progress)
        return self._core.succeeded_status()

    def logs(self, *, follow: bool = False) -> Iterator[str]:
        """The lines of the log; with `follow`, as they come, until the job has ended. Raises NoLogError."""
        return self._loop.iterate(self._core.logs(follow=follow))

    def stop(self) -> str:
        """Stop the job: in Ray if it runs there, else by deleting the RayJob. Returns what happened. Raises StopError."""
        return self._loop.run(self._core.stop())


class Jobs(Collection[RayJob, Job, AsyncJobs]):
    """All RayJobs."""

    handle: ClassVar[type[Object[Any, Any]]] = Job

    def create(self, manifest: RayJob | Mapping[str, Any] | str) -> Job:
        """Create a RayJob from a manifest. Raises InvalidValue and AlreadyExists."""
        return self._handle(self._loop.run(self._core.create(manifest)))

    def submit(self, command: str | Sequence[str], **options: Unpack[JobOptions]) -> Job:
        """Run a command on a new cluster, which is deleted after the job (arguments: `JobOptions`).

        Raises InvalidValue and AlreadyExists.
        """
        return self._handle(self._loop.run(self._core.submit(command, **options)))
