"""What Ray dashboards and nodes answered last, as pages show it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from manta.client.gpus import GpuRow
from manta.console.snapshot import Sample
from manta.ray.autoscaler_report import AutoscalerReport, AutoscalerResult, Demand
from manta.ray.models import TaskInfo, TaskList, TasksResult, Unreachable

__all__ = [
    "NOTHING",
    "AutoscalerReport",
    "Demand",
    "Live",
    "TaskInfo",
    "TaskList",
    "TasksResult",
    "Unreachable",
]


@dataclass(frozen=True)
class Live:
    """None: nobody asked, or there is no answer yet."""

    autoscaler: AutoscalerResult | None = None
    waiting: tuple[Sample, ...] = ()
    """How many tasks, actors and placement groups waited, and how many nodes were on their way."""
    failed_tasks: TasksResult | None = None
    gpus: tuple[GpuRow, ...] = ()
    dashboard: bool = False
    """Whether the console can open the cluster's dashboard for this visitor."""
    history: bool = False
    """Whether there is a history server to ask for what the object ran."""
    asks: bool = False
    """Whether something is asked again and again while the page is open."""

    @cached_property
    def gpus_by_pod(self) -> Mapping[str, tuple[GpuRow, ...]]:
        """By `namespace/name`."""
        found: dict[str, list[GpuRow]] = {}
        for one in self.gpus:
            found.setdefault(one.pod, []).append(one)
        return {pod: tuple(rows) for pod, rows in found.items()}


NOTHING = Live()
