"""Days of one RayCluster of which Prometheus scrapes the hours, and what its `increase()` makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from manta.controllers.idlesuspend.metrics import HoursCounter
from manta.runtime.metrics import Registry
from support.idle_days import Life

SCRAPE_SECONDS = 30


@dataclass
class OperatorProcess:
    """One process of the operator: Prometheus keeps a series of its own for each."""

    life: Life
    registry: Registry = field(default_factory=Registry)
    used: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hours = HoursCounter(self.registry, self)

    def now(self) -> datetime:
        return self.life.moment

    def monotonic(self) -> float:
        return self.life.now

    def scrape(self) -> None:
        for family in self.registry.collect():
            if family.name == "manta_cluster_gpu_hours":
                for one in family.samples:
                    (self.used if one.labels["state"] == "used" else self.idle).append(one.value)


@dataclass
class ScrapedLife(Life):
    processes: list[OperatorProcess] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.processes.append(OperatorProcess(self))

    def pass_until(self, then: float) -> None:
        for moment in _multiples(SCRAPE_SECONDS, self.now, then):
            super().pass_until(moment)
            self.processes[-1].scrape()
        super().pass_until(then)

    def happen(self, what: str) -> None:
        super().happen(what)
        if what == "restart":
            self.processes.append(OperatorProcess(self))

    async def reconcile(self) -> float:
        wakeup = await super().reconcile()
        self.processes[-1].hours.note(self.cluster())
        return wakeup


def _multiples(step: float, after: float, until: float) -> Iterator[float]:
    number = int(after // step) + 1
    while number * step <= until:
        yield number * step
        number += 1


def increase(series: list[float]) -> float:
    """As Prometheus counts: a value that is less than the last one begins at zero."""
    return sum(new if new < old else new - old for old, new in pairwise(series))
