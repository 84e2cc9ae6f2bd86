"""Views of the batch group: Jobs."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from manta.api.core import PodCondition
from manta.api.meta import Object, View

JOB_COMPLETE: Final = "Complete"
JOB_FAILED: Final = "Failed"
JOB_FAILURE_TARGET: Final = "FailureTarget"


class JobSpec(View, frozen=True, kw_only=True):
    """The Pod template stays raw JSON, so that unknown fields survive."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    manual_selector: bool = False
    selector: dict[str, Any] = msgspec.field(default_factory=dict)
    template: dict[str, Any] = msgspec.field(default_factory=dict)


class UncountedPods(View, frozen=True, kw_only=True):
    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(View, frozen=True, kw_only=True):
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[PodCondition, ...] = ()
    uncounted_terminated_pods: UncountedPods | None = None


class Job(Object, frozen=True, kw_only=True):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def finished(self) -> str | None:
        """`Complete` or `Failed` once one of these conditions is True."""
        for condition in self.status.conditions:
            if condition.status == "True" and condition.type in (JOB_COMPLETE, JOB_FAILED):
                return condition.type
        return None
