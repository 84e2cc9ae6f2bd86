"""All that a round of the Job controller may know."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from manta.api.meta import Key
from manta.localplane.builtin.views import Job, Pod

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    key: Key
    job: Job | None
    """None when it is gone: only its Pods are left to be released."""
    pods: tuple[Pod, ...]
    """The Pods that the Job controls."""
    strays: tuple[Pod, ...]
    """Pods of an earlier Job of this name that still wait for being counted."""
    now: datetime


def is_tracked(pod: Pod) -> bool:
    return TRACKING_FINALIZER in pod.metadata.finalizers
