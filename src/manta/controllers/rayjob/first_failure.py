"""What a RayJob's message says of the first failed task of its job. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from manta.api.text import without_credentials
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.ray.models import TaskInfo
from manta.rules.history import HistoryCollector, history_collector

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(: .*)?")
_SEARCHED = 20_000
"""Characters at the end of a traceback: the exception is its last line that is not indented."""


def first_failure(tasks: Iterable[TaskInfo]) -> str:
    """The first task that failed and its error, on one bounded line; empty if there is none."""
    failed = [task for task in tasks if task.error_message or task.error_type]
    if not failed:
        return ""
    task = min(failed, key=lambda one: one.end_time_ms or float("inf"))
    name = without_credentials(task.name or "a task", 100)
    return f"{name}: {without_credentials(_error(task))}"


def _error(task: TaskInfo) -> str:
    kind, text = task.error_type or "", (task.error_message or "").strip()
    lines = text[-_SEARCHED:].splitlines()
    if not lines:
        return kind
    if kind not in ("", "TASK_EXECUTION_EXCEPTION"):  # Ray's own: its sentence comes first
        return f"{kind}: {text[:_SEARCHED].splitlines()[0]}"
    return next((one for one in reversed(lines) if _EXCEPTION.fullmatch(one)), lines[-1])


def with_first_failure(snapshot: JobSnapshot, message: str, failure: str) -> str:
    """The message of a failed job, and where to read on."""
    if not failure:
        return message
    meta = snapshot.job.metadata
    kept = snapshot.cluster and history_collector(snapshot.cluster, snapshot.settings) in (
        HistoryCollector.NODE,
        HistoryCollector.SIDECAR,
    )
    command = "manta history errors rayjob/" if kept else "manta logs job/"
    read_on = f"{command}{meta.name} -n {meta.namespace}"
    return f"{message}\nFirst failed task: {failure}\nRead on: {read_on}".lstrip("\n")
