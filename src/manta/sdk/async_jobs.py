"""RayJobs, asynchronously."""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Final, Self, Unpack

from manta.api.meta import Key
from manta.api.ray.job import RayJob, RayJobStatus
from manta.api.ray.manifest import Document, Manifest
from manta.client import jobs
from manta.client.job_logs import FINISHED, job_log
from manta.client.submission import exit_code
from manta.client.workload_readiness import Verdict
from manta.sdk.async_objects import AsyncCollection, AsyncObject
from manta.sdk.errors import JobFailed, as_invalid_value
from manta.sdk.options import JobOptions
from manta.sdk.progress import Progress
from manta.sdk.submit import prepare

_LOG_FOLLOWS: Final = re.compile(r", last available logs.*", re.DOTALL)


class AsyncJob(AsyncObject[RayJob]):
    """A RayJob. `async with job:` deletes it at the end."""

    kind: ClassVar[type[Manifest]] = RayJob

    @property
    def status(self) -> RayJobStatus:
        """The status, as it was last read."""
        return self.object.status

    @property
    def finished(self) -> bool:
        """Whether the job had ended when it was last read."""
        return self.status.job_deployment_status in FINISHED

    async def wait(self, *, timeout: float | None = None, progress: Progress = None) -> Self:
        """Wait until the job has ended, successfully or not. Raises WaitTimeout and Deleted."""
        await self._wait(has_finished, timeout, "the end of the job", progress)
        return self

    async def result(
        self, *, timeout: float | None = None, progress: Progress = None
    ) -> RayJobStatus:
        """Wait for the end, and return the last status. Raises JobFailed unless the job succeeded."""
        await self.wait(timeout=timeout, progress=progress)
        return self.succeeded_status()

    def succeeded_status(self) -> RayJobStatus:
        """The last status of a job that has ended. Raises JobFailed unless it succeeded."""
        status = self._document.get("status") or {}
        code = exit_code(status)
        if code:
            raise JobFailed(str(self._key), self.status, code, _why(self.status))
        return self.status

    async def logs(self, *, follow: bool = False) -> AsyncGenerator[str, None]:
        """The lines of the log; with `follow`, as they come, until the job has ended. Raises NoLogError."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = ""
        async with aclosing(job_log(self._session.kube, self._key, follow=follow)) as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + decoder.decode(chunk)).split("\n")
                for line in lines:
                    yield line.removesuffix("\r")
        if rest:
            yield rest

    async def stop(self) -> str:
        """Stop the job: in Ray if it runs there, else by deleting the RayJob. Returns what happened. Raises StopError."""
        return await jobs.stop(self._session.kube, self._key)

    def _columns(self) -> dict[str, str]:
        status = self.status
        return {
            "STAGE": status.job_deployment_status or "New",
            "JOB": status.job_status,
            "CLUSTER": status.ray_cluster_name,
            "STARTED": status.start_time or "",
            "ENDED": status.end_time or "",
            "MESSAGE": _why(status) if status.job_deployment_status == "Failed" else "",
        }


def has_finished(document: Document) -> Verdict:
    """Whether a RayJob has ended; if not, its stage."""
    status = document.get("status") or {}
    stage = status.get("jobDeploymentStatus") or "New"
    waits = [
        one.get("message", "")
        for one in status.get("conditions") or ()
        if one.get("type") == "Ready" and one.get("status") != "True"
    ]
    words = (stage, status.get("jobStatus") or "", *waits)
    return Verdict(ready=stage in FINISHED, why=" ".join(word for word in words if word))


def _why(status: RayJobStatus) -> str:
    """Why a job failed, without the end of the log that Ray repeats in its message."""
    message = _LOG_FOLLOWS.sub("", status.message).strip().partition("\n")[0]
    end = status.job_status or status.reason
    return f"{status.job_deployment_status} ({end}): {message}" if message else str(end)


class AsyncJobs(AsyncCollection[RayJob, AsyncJob]):
    """All RayJobs."""

    handle: ClassVar[type[AsyncObject[Any]]] = AsyncJob

    async def create(self, manifest: RayJob | Mapping[str, Any] | str) -> AsyncJob:
        """Create a RayJob from a manifest. Raises InvalidValue and AlreadyExists."""
        return await self._create(manifest)

    async def submit(self, command: str | Sequence[str], **options: Unpack[JobOptions]) -> AsyncJob:
        """Run a command on a new cluster, which is deleted after the job (arguments: `JobOptions`).

        Raises InvalidValue and AlreadyExists.
        """
        return await self.submit_to("", command, options)

    async def submit_to(
        self, cluster: str, command: str | Sequence[str], options: Mapping[str, Any]
    ) -> AsyncJob:
        """Run a command on this cluster; empty: on a new one."""
        namespace = options.get("namespace") or self._session.namespace
        submission, package = await prepare(namespace, cluster, command, options)
        with as_invalid_value("name", submission.name):
            key = await jobs.create(self._session.kube, submission, package)
        document = await self._session.kube.get(self._resource, Key(*key))
        return self._made(document)
