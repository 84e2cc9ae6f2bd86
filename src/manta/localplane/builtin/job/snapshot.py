"""The snapshot of a Job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from manta.api.meta import Key
from manta.api.well_known import FINALIZER_JOB_TRACKING
from manta.localplane.builtin.views import Job, Pod


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    key: Key
    job: Job | None
    """None when it is gone, and only the finalizers of its Pods are left."""
    pods: tuple[Pod, ...]
    """The Pods that the Job controls."""
    orphans: tuple[Pod, ...]
    """Pods of an earlier Job of this name that still have the finalizer."""
    now: datetime


def is_tracked(pod: Pod) -> bool:
    return FINALIZER_JOB_TRACKING in pod.metadata.finalizers
