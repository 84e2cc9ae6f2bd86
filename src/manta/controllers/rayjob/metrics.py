"""KubeRay's metrics of RayJobs, computed from the cache at each scrape.

A deleted RayJob leaves no series behind (C38). The durations of retried attempts are in no status:
they are kept in memory until the RayJob is deleted or the process ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from manta.api.meta import ObjectMeta
from manta.api.ray.job import TERMINAL_DEPLOYMENT_STATUSES, JobDeploymentStatus, RayJobStatus
from manta.api.times import parse_time
from manta.controllers.rayjob.observe import CachedRayJob
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.runtime.informer import Informer
from manta.runtime.metrics import Computed, Registry

Row = tuple[tuple[str, ...], float]
Jobs = tuple[CachedRayJob, ...]
_WHO = ("name", "namespace", "uid")


class Attempts:
    """The durations of attempts that were retried."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {}

    def note(self, snapshot: JobSnapshot, new: RayJobStatus) -> None:
        retries = new.job_deployment_status == JobDeploymentStatus.RETRYING
        if not retries or snapshot.stage is JobDeploymentStatus.RETRYING or not new.start_time:
            return
        meta = snapshot.job.metadata
        took = (snapshot.now - parse_time(new.start_time)).total_seconds()
        labels = (*_who(meta), JobDeploymentStatus.RETRYING.value, str(snapshot.status.failed or 0))
        self._rows.setdefault(meta.uid, []).append((labels, took))

    def rows(self, jobs: Jobs) -> Iterator[Row]:
        alive = {job.metadata.uid for job in jobs}
        for uid in [uid for uid in self._rows if uid not in alive]:
            del self._rows[uid]
        for rows in self._rows.values():
            yield from rows


def register(registry: Registry, jobs: Informer[CachedRayJob], attempts: Attempts) -> None:
    families = (
        Computed("kuberay_job_info", "Metadata of RayJobs.", _WHO, lambda: infos(jobs.all())),
        Computed(
            "kuberay_job_deployment_status",
            "The stage of a RayJob.",
            (*_WHO, "deployment_status"),
            lambda: stages(jobs.all()),
        ),
        Computed(
            "kuberay_job_execution_duration_seconds",
            "How long an attempt of a RayJob took, from its start to its end.",
            (*_WHO, "job_deployment_status", "retry_count"),
            lambda: durations(jobs.all(), attempts),
        ),
    )
    for family in families:
        registry.register(family)


def infos(jobs: Jobs) -> Iterator[Row]:
    for job in jobs:
        yield _who(job.metadata), 1.0


def stages(jobs: Jobs) -> Iterator[Row]:
    for job in jobs:
        yield (*_who(job.metadata), job.status.job_deployment_status), 1.0


def durations(jobs: Jobs, attempts: Attempts) -> Iterator[Row]:
    for job in jobs:
        status = job.status
        over = status.job_deployment_status in TERMINAL_DEPLOYMENT_STATUSES
        if not over or not status.start_time or not status.end_time:
            continue
        took = parse_time(status.end_time) - parse_time(status.start_time)
        failed = status.failed or 0
        if status.job_deployment_status == JobDeploymentStatus.FAILED:
            failed -= 1  # KubeRay counts the failures before this end
        labels = (*_who(job.metadata), status.job_deployment_status, str(max(failed, 0)))
        yield labels, took.total_seconds()
    yield from attempts.rows(jobs)


def _who(meta: ObjectMeta) -> tuple[str, str, str]:
    return meta.name, meta.namespace, meta.uid
