"""Counting the Pods of a Job. Pure.

A Pod counts once: either in the numbers of the status, or in the list of the uncounted, or by the
finalizer that it still carries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from manta.localplane.builtin.job import indexes
from manta.localplane.builtin.job.failure_policy import is_ignored
from manta.localplane.builtin.job.snapshot import is_tracked
from manta.localplane.builtin.views import Job, Pod, Uncounted


@dataclass(frozen=True, slots=True)
class Tally:
    active: tuple[Pod, ...]
    terminating: int
    ready: int
    succeeded: int
    failed: int
    new_succeeded: tuple[str, ...]
    """UIDs of Pods that ended and are written down nowhere yet."""
    new_failed: tuple[str, ...]
    completed: frozenset[int] | None = None
    """The numbers of an Indexed Job that have succeeded; they need no list of Pods."""


def count_pods(job: Job, pods: Iterable[Pod]) -> Tally:
    pods = tuple(pods)
    active = tuple(pod for pod in pods if pod.is_active)
    leaving = [pod for pod in pods if pod.is_deleting and not pod.is_terminal]
    uncounted = job.status.uncounted_terminated_pods or Uncounted()
    known = {*(uncounted.succeeded or ()), *(uncounted.failed or ())}
    fresh = [pod for pod in pods if is_tracked(pod) and pod.metadata.uid not in known]
    done = indexes.completed(job, pods) if indexes.is_indexed(job) else None
    won = tuple(
        pod.metadata.uid for pod in fresh if pod.status.phase == "Succeeded" and done is None
    )
    succeeded = (job.status.succeeded or 0) + len(uncounted.succeeded or ()) + len(won)
    lost = tuple(pod.metadata.uid for pod in fresh if is_lost(job, pod))
    return Tally(
        active=active,
        terminating=len(leaving),
        ready=sum(pod.is_ready for pod in active),
        succeeded=succeeded if done is None else len(done),
        failed=(job.status.failed or 0) + len(uncounted.failed or ()) + len(lost),
        new_succeeded=won,
        new_failed=lost,
        completed=done,
    )


def is_lost(job: Job, pod: Pod) -> bool:
    """Counts as a failure: it failed, or it is deleted before it ends."""
    if is_taken_away(job, pod) or is_ignored(job, pod):
        return False
    if pod.status.phase == "Failed":
        return True
    if not pod.is_deleting or pod.status.phase == "Succeeded":
        return False
    return job.spec.pod_replacement_policy != "Failed"


def is_taken_away(job: Job, pod: Pod) -> bool:
    """What the Job itself deletes while it is suspended is no failure."""
    return bool(job.spec.suspend) and pod.is_deleting and pod.status.phase != "Succeeded"
