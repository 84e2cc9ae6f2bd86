"""The Job controller: what it watches, and its phases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from manta.api.meta import Key, ObjectMeta
from manta.api.resources import JOBS, PODS
from manta.api.well_known import LABEL_JOB_NAME
from manta.localplane.builtin.job.events import status_events
from manta.localplane.builtin.job.plan import plan
from manta.localplane.builtin.job.snapshot import JobSnapshot, is_tracked
from manta.localplane.builtin.job.status import next_status
from manta.localplane.builtin.views import Job, JobStatus, Pod
from manta.reconcile.events import Event
from manta.reconcile.outcome import Outcome
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.controller import Watch, own_key


def job_names(pod: Pod) -> tuple[str, ...]:
    """`namespace/name` of the Job that a Pod belongs to, or did before it was orphaned."""
    owner = pod.metadata.controller
    if owner is not None and owner.kind == "Job":
        return (f"{pod.metadata.namespace}/{owner.name}",)
    if owner is None and is_tracked(pod) and (name := pod.metadata.labels.get(LABEL_JOB_NAME)):
        return (f"{pod.metadata.namespace}/{name}",)
    return ()


def _job_keys(old: Pod | None, new: Pod | None) -> Iterable[Key]:
    names = {name for pod in (old, new) if pod is not None for name in job_names(pod)}
    return [Key(*name.split("/", 1)) for name in names]


class JobController(Reconciler[JobSnapshot, JobStatus]):
    name = "job-controller"

    def watches(self) -> Sequence[Watch[Any]]:
        self._jobs = self.manager.informer(JOBS, Job)
        self._pods = self.manager.informer(PODS, Pod, indexes={"job": job_names})
        return Watch(self._jobs, own_key), Watch(self._pods, _job_keys)

    async def observe(self, key: Key) -> JobSnapshot | None:
        job = self._jobs.get(key)
        pods = self._pods.by("job", str(key))
        uid = job.metadata.uid if job else ""
        own = tuple(pod for pod in pods if job and pod.metadata.is_controlled_by(uid))
        orphans = tuple(pod for pod in pods if pod not in own)
        if job is None and not orphans:
            return None
        return JobSnapshot(key, job, own, orphans, self.manager.clock.now())

    def plan(self, snapshot: JobSnapshot) -> Step[JobStatus]:
        return Step(plan(snapshot))

    def subject(self, snapshot: JobSnapshot) -> Subject:
        if snapshot.job:
            return Subject(JOBS, snapshot.job.metadata, snapshot.job.status)
        return Subject(JOBS, ObjectMeta(name=snapshot.key.name, namespace=snapshot.key.namespace))

    def next_status(self, snapshot: JobSnapshot, _: object, outcome: Outcome) -> JobStatus | None:
        return next_status(snapshot, snapshot.job, outcome) if snapshot.job else None

    def status_events(
        self, snapshot: JobSnapshot, status: JobStatus | None, _: object
    ) -> Iterable[Event]:
        return status_events(snapshot.job, status) if snapshot.job and status else ()
