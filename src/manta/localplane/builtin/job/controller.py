"""The Job controller tied to the API: what it watches, reads and tells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from manta.api.meta import Key, ObjectMeta, View
from manta.api.resources import JOBS, PODS, Resource
from manta.localplane.builtin.job.events import EVENTS
from manta.localplane.builtin.job.plan import plan
from manta.localplane.builtin.job.snapshot import JobSnapshot, is_tracked
from manta.localplane.builtin.job.status import next_status
from manta.localplane.builtin.ownership import is_controlled_by
from manta.localplane.builtin.shell import Builtin
from manta.localplane.builtin.views import Job, JobStatus, Pod
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import Plan
from manta.runtime.controller import Watch, own_key

JOB_NAME = "batch.kubernetes.io/job-name"


def job_names(pod: Pod) -> tuple[str, ...]:
    """`namespace/name` of the Job that a Pod belongs to, or did before it was orphaned."""
    owner = pod.metadata.controller
    if owner is not None and owner.kind == "Job":
        return (f"{pod.metadata.namespace}/{owner.name}",)
    if owner is None and is_tracked(pod) and (name := pod.metadata.labels.get(JOB_NAME)):
        return (f"{pod.metadata.namespace}/{name}",)
    return ()


def _job_keys(old: Pod | None, new: Pod | None) -> Iterable[Key]:
    names = {name for pod in (old, new) if pod is not None for name in job_names(pod)}
    return [Key(*name.split("/", 1)) for name in names]


class JobController(Builtin[JobSnapshot]):
    name = "job-controller"
    events = EVENTS

    def watches(self) -> Sequence[Watch[Any]]:
        self._jobs = self.manager.informer(JOBS, Job)
        self._pods = self.manager.informer(PODS, Pod, indexes={"job": job_names})
        return Watch(self._jobs, own_key), Watch(self._pods, _job_keys)

    async def observe(self, key: Key) -> JobSnapshot | None:
        job = self._jobs.get(key)
        pods = self._pods.by("job", str(key))
        uid = job.metadata.uid if job else ""
        own = tuple(pod for pod in pods if job and is_controlled_by(pod.metadata, uid))
        strays = tuple(pod for pod in pods if pod not in own)
        if job is None and not strays:
            return None
        return JobSnapshot(key, job, own, strays, self.manager.clock.now())

    def plan(self, seen: JobSnapshot) -> Plan:
        return plan(seen)

    def subject(self, seen: JobSnapshot) -> tuple[Resource, ObjectMeta]:
        if seen.job:
            return JOBS, seen.job.metadata
        return JOBS, ObjectMeta(name=seen.key.name, namespace=seen.key.namespace)

    def statuses(self, seen: JobSnapshot, outcome: Outcome) -> tuple[View, View] | None:
        if seen.job is None:
            return None
        return seen.job.status, next_status(seen, seen.job, outcome)

    async def report(self, seen: JobSnapshot, plan: Plan, outcome: Outcome) -> bool:
        changed = await super().report(seen, plan, outcome)
        if changed and seen.job:
            self._tell_of(seen.job, next_status(seen, seen.job, outcome))
        return changed

    def _tell_of(self, job: Job, status: JobStatus) -> None:
        """Events about the Job itself: how it ended, and that it was suspended or resumed."""
        known = {(one.type, one.status) for one in job.status.conditions or ()}
        for one in status.conditions or ():
            if (one.type, one.status) in known:
                continue
            if one.type == "Complete":
                self.tell((JOBS, job.metadata), "Normal", "Completed", "Job completed")
            elif one.type == "Failed":
                self.tell((JOBS, job.metadata), "Warning", one.reason, one.message)
            elif one.type == "Suspended":
                reason = "Suspended" if one.status == "True" else "Resumed"
                self.tell((JOBS, job.metadata), "Normal", reason, one.message)
