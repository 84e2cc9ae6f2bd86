"""What to do about a Job: release, delete and create Pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from manta.api.resources import JOBS, PODS
from manta.api.times import parse_time
from manta.api.well_known import (
    ANNOTATION_JOB_COMPLETION_INDEX,
    FINALIZER_JOB_TRACKING,
    LABEL_JOB_NAME,
    LABEL_JOB_UID,
)
from manta.localplane.builtin.job import indexes
from manta.localplane.builtin.job.failure_policy import is_ignored
from manta.localplane.builtin.job.snapshot import JobSnapshot, is_tracked
from manta.localplane.builtin.job.tally import Tally, count_pods, is_taken_away
from manta.localplane.builtin.job.verdict import (
    backoff_left,
    condition,
    is_finished,
    judge,
    time_left,
)
from manta.localplane.builtin.ownership import without_finalizer
from manta.localplane.builtin.pod_events import POD_CREATED, POD_DELETED
from manta.localplane.builtin.views import Job, Pod, Uncounted
from manta.reconcile.actions import Create, Delete, Patch
from manta.reconcile.causes import ActionCause, Reasons
from manta.reconcile.plan import NOTHING, Plan, Wait, do

MAX_PODS_PER_RECONCILE = 500
"""A huge Job must not keep its worker busy for minutes."""


class Cause(ActionCause):
    RELEASE = (
        Reasons("Release"),
        "a Pod that was counted, or whose Job is gone, loses the tracking finalizer",
    )
    CREATE = POD_CREATED, "too few Pods are active"
    SURPLUS = POD_DELETED, "too many Pods are active"
    DECIDED = POD_DELETED, "the Job is decided"
    SUSPENDED = POD_DELETED, "the Job is suspended"
    EXPIRED = Reasons("Delete"), "the time to live after the end is over"


def plan(snapshot: JobSnapshot) -> Plan:
    orphans = _release(pod for pod in snapshot.orphans if is_tracked(pod))
    if snapshot.job is None:
        return orphans
    return orphans.then(_plan_job(snapshot, snapshot.job))


def _plan_job(snapshot: JobSnapshot, job: Job) -> Plan:
    if job.metadata.deletion_timestamp:
        return _release(pod for pod in snapshot.pods if is_tracked(pod))
    if is_finished(job):
        return _release(pod for pod in snapshot.pods if is_tracked(pod)).then(
            _plan_expiry(snapshot, job)
        )
    tally = count_pods(job, snapshot.pods)
    return _release(_counted(snapshot, job)).then(_plan_pods(snapshot, job, tally))


def _plan_pods(snapshot: JobSnapshot, job: Job, tally: Tally) -> Plan:
    if judge(job, tally, snapshot.pods, snapshot.now):
        return _delete(tally.active, Cause.DECIDED)
    if job.spec.suspend:
        return _delete(tally.active, Cause.SUSPENDED)
    if tally.completed is not None:
        surplus = indexes.needless(job, tally.active, tally.completed)
        if surplus:
            return _delete(surplus, Cause.SURPLUS)
    missing = wanted_pods(job, tally) - len(tally.active)
    if missing < 0:
        return _delete(_least_useful(tally.active)[:-missing], Cause.SURPLUS)
    if job.spec.pod_replacement_policy == "Failed":
        missing -= tally.terminating
    if missing <= 0:
        return _until(time_left(job, snapshot.now), "the deadline")
    if (pause := backoff_left(snapshot)) > timedelta(0):
        left = time_left(job, snapshot.now)
        return _until(pause if left is None else min(pause, left), "the backoff after a failure")
    pods = _new_pods(snapshot, job, tally, min(missing, MAX_PODS_PER_RECONCILE))
    return do(*(Create(PODS, pod, Cause.CREATE) for pod in pods)).then(
        _until(time_left(job, snapshot.now), "the deadline")
    )


def _new_pods(snapshot: JobSnapshot, job: Job, tally: Tally, count: int) -> list[dict[str, Any]]:
    if tally.completed is None:
        return [_pod_of(job) for _ in range(count)]
    held = [
        pod for pod in snapshot.pods if pod.is_active or (pod.is_deleting and not pod.is_terminal)
    ]
    if job.spec.pod_replacement_policy != "Failed":
        held = list(tally.active)
    taken = {*tally.completed, *(indexes.index_of(job, pod) for pod in held)}
    return [_with_index(_pod_of(job), job, index) for index in indexes.pending(job, taken, count)]


def wanted_pods(job: Job, tally: Tally) -> int:
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        # A work queue with a success starts no more Pods.
        return min(len(tally.active), parallelism) if tally.succeeded else parallelism
    return max(0, min(parallelism, job.spec.completions - tally.succeeded))


def _counted(snapshot: JobSnapshot, job: Job) -> Iterable[Pod]:
    """Pods that the *stored* status has written down; only they may lose the finalizer."""
    uncounted = job.status.uncounted_terminated_pods or Uncounted()
    known = {*(uncounted.succeeded or ()), *(uncounted.failed or ())}
    for pod in snapshot.pods:
        if not is_tracked(pod):
            continue
        if pod.metadata.uid in known or is_taken_away(job, pod) or is_ignored(job, pod):
            yield pod
        elif indexes.is_indexed(job) and pod.status.phase == "Succeeded":
            index = indexes.index_of(job, pod)
            if index is None or index in indexes.completed(job, ()):
                yield pod


def _plan_expiry(snapshot: JobSnapshot, job: Job) -> Plan:
    ttl = job.spec.ttl_seconds_after_finished
    if ttl is None:
        return NOTHING
    ended = condition(job, "Complete") or condition(job, "Failed")
    if ended is None or ended.last_transition_time is None:
        return NOTHING
    left = parse_time(ended.last_transition_time) + timedelta(seconds=ttl) - snapshot.now
    if left > timedelta(0):
        return _until(left, "the time to live")
    meta = job.metadata
    return do(Delete(JOBS, meta.key, meta.uid, Cause.EXPIRED, propagation="Foreground"))


def _release(pods: Iterable[Pod]) -> Plan:
    patches = (
        Patch(
            PODS,
            pod.metadata.key,
            without_finalizer(pod.metadata, FINALIZER_JOB_TRACKING),
            Cause.RELEASE,
            kind="json",
        )
        for pod in pods
    )
    return do(*patches, independent=True)


def _delete(pods: Iterable[Pod], cause: Cause) -> Plan:
    return do(*(Delete(PODS, pod.metadata.key, pod.metadata.uid, cause) for pod in pods))


def _least_useful(pods: Iterable[Pod]) -> list[Pod]:
    """Unscheduled before waiting before ready, the youngest first."""
    youngest = sorted(pods, key=lambda pod: pod.metadata.creation_timestamp, reverse=True)
    return sorted(youngest, key=lambda pod: (bool(pod.spec.node_name), pod.is_ready))


def _until(left: timedelta | None, what: str) -> Plan:
    return NOTHING if left is None else Plan(wait=Wait(f"until {what} is over", left))


def _pod_of(job: Job) -> dict[str, Any]:
    template = job.spec.template
    meta = template.get("metadata") or {}
    names = {
        LABEL_JOB_UID: job.metadata.uid,
        LABEL_JOB_NAME: job.metadata.name,
        "controller-uid": job.metadata.uid,
        "job-name": job.metadata.name,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{job.metadata.name}-",
            "namespace": job.metadata.namespace,
            "labels": {**(meta.get("labels") or {}), **names},
            **({"annotations": meta["annotations"]} if meta.get("annotations") else {}),
            "finalizers": [*(meta.get("finalizers") or ()), FINALIZER_JOB_TRACKING],
            "ownerReferences": [JOBS.controller_reference(job.metadata)],
        },
        "spec": template.get("spec") or {},
    }


def _with_index(pod: dict[str, Any], job: Job, index: int) -> dict[str, Any]:
    """A Pod knows its number by annotation, label, variable and host name."""
    meta, spec = pod["metadata"], pod["spec"]
    index_entry = {ANNOTATION_JOB_COMPLETION_INDEX: str(index)}
    path = {"fieldPath": f"metadata.labels['{ANNOTATION_JOB_COMPLETION_INDEX}']"}
    variable = {"name": indexes.VARIABLE, "valueFrom": {"fieldRef": path}}
    knowing = {
        member: [
            container | {"env": [*(container.get("env") or ()), variable]}
            if all(one["name"] != indexes.VARIABLE for one in container.get("env") or ())
            else container
            for container in spec[member]
        ]
        for member in ("initContainers", "containers")
        if spec.get(member)
    }
    name = f"{job.metadata.name}-{index}"
    return pod | {
        "metadata": meta
        | {
            "generateName": f"{name}-",
            "labels": meta["labels"] | index_entry,
            "annotations": (meta.get("annotations") or {}) | index_entry,
        },
        "spec": {"hostname": name} | spec | knowing,
    }
