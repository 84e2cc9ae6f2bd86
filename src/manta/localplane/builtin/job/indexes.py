"""Indexed Jobs: each completion index must succeed once. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from manta.api.well_known import ANNOTATION_JOB_COMPLETION_INDEX
from manta.localplane.builtin.views import Job, Pod

VARIABLE = "JOB_COMPLETION_INDEX"


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def index_of(job: Job, pod: Pod) -> int | None:
    """The completion index of a Pod; None if the Job does not want it."""
    text = pod.metadata.annotations.get(ANNOTATION_JOB_COMPLETION_INDEX, "")
    if not text.isascii() or not text.isdigit():
        return None
    return int(text) if int(text) < (job.spec.completions or 0) else None


def read(text: str | None, limit: int) -> frozenset[int]:
    """Parses `0,2-4`, the format of the status."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.update(range(int(first), min(int(last or first), limit - 1) + 1))
    return frozenset(index for index in found if index < limit)


def write(indexes: Iterable[int]) -> str:
    """Three or more in a row become a range, as kube-controller-manager writes them."""
    parts: list[str] = []
    run: list[int] = []
    for index in sorted(indexes):
        if run and index != run[-1] + 1:
            parts += _run(run)
            run = []
        run.append(index)
    return ",".join(parts + _run(run))


def _run(run: list[int]) -> list[str]:
    if len(run) < 3:
        return [str(index) for index in run]
    return [f"{run[0]}-{run[-1]}"]


def completed(job: Job, pods: Iterable[Pod]) -> frozenset[int]:
    """Indexes that the status has, or whose Pod succeeded."""
    known = read(job.status.completed_indexes, job.spec.completions or 0)
    won = (index_of(job, pod) for pod in pods if pod.status.phase == "Succeeded")
    return known | {index for index in won if index is not None}


def pending(job: Job, taken: Iterable[int | None], count: int) -> list[int]:
    """The lowest indexes without a Pod."""
    busy = set(taken)
    free = (index for index in range(job.spec.completions or 0) if index not in busy)
    return [index for index, _ in zip(free, range(count), strict=False)]


def needless(job: Job, active: Iterable[Pod], done: frozenset[int]) -> list[Pod]:
    """Pods without a wanted index, or whose index an older Pod has."""
    taken = set(done)
    found: list[Pod] = []
    for pod in sorted(active, key=lambda pod: pod.metadata.creation_timestamp):
        index = index_of(job, pod)
        if index is None or index in taken:
            found.append(pod)
        else:
            taken.add(index)
    return found
