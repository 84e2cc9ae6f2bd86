"""CPU- and GPU-hours of a RayCluster, used and idle, by day. Pure.

They are kept in an annotation of the RayCluster: what runs since when, the sum of all time, and the last days. It is
written together with other changes, so that figures cost no writes of their own.

`idle 2026-11-18T12:00:00Z 4 1;total 10 2.5 1 0.5;2026-11-18 10 2.5 1 0.5`
 (state, since, CPUs, GPUs)  (used and idle CPU-hours, used and idle GPU-hours)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Final, Self

from manta.api.meta import ObjectMeta
from manta.api.ray import names
from manta.api.times import format_time, parse_time

KEPT_DAYS: Final = 35
_TOTAL: Final = "total"


class UseState(StrEnum):
    USED = "used"
    IDLE = "idle"
    NONE = "none"
    """It does not run, or nobody knows whether it is used."""


@dataclass(frozen=True, slots=True)
class Hours:
    used_cpu: float = 0.0
    idle_cpu: float = 0.0
    used_gpu: float = 0.0
    idle_gpu: float = 0.0

    def __add__(self, other: Hours) -> Hours:
        return Hours(
            self.used_cpu + other.used_cpu,
            self.idle_cpu + other.idle_cpu,
            self.used_gpu + other.used_gpu,
            self.idle_gpu + other.idle_gpu,
        )

    def above(self, other: Hours) -> Hours:
        """How much more these are, each for itself; zero for those that are less."""
        more = (mine - its for mine, its in zip(astuple(self), astuple(other), strict=True))
        return Hours(*(max(one, 0.0) for one in more))

    @property
    def text(self) -> str:
        values = astuple(self)
        return " ".join(f"{value:.4f}".rstrip("0").rstrip(".") for value in values)


@dataclass(frozen=True, slots=True)
class Usage:
    state: UseState
    since: datetime
    cpus: float = 0.0
    gpus: float = 0.0
    total: Hours = Hours()
    days: Mapping[date, Hours] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None for text that is empty or cannot be read: the figures begin again."""
        try:
            first, second, *rest = text.split(";")
            state, since, cpus, gpus = first.split()
            days = dict(_day(one) for one in rest[:KEPT_DAYS])
            total = _hours(second.removeprefix(_TOTAL).split())
            return cls(
                UseState(state), parse_time(since), _amount(cpus), _amount(gpus), total, days
            )
        except (ValueError, OverflowError):
            return None

    @property
    def text(self) -> str:
        amounts = " ".join(f"{one:.3f}".rstrip("0").rstrip(".") for one in (self.cpus, self.gpus))
        newest = sorted(self.days, reverse=True)[:KEPT_DAYS]
        parts = [f"{self.state} {format_time(self.since)} {amounts}", f"{_TOTAL} {self.total.text}"]
        return ";".join((*parts, *(f"{day.isoformat()} {self.days[day].text}" for day in newest)))

    def until(self, now: datetime) -> Usage:
        """With the time from `since` to `now` counted."""
        if now <= self.since:
            return self
        days, total = dict(self.days), self.total
        for day, hours in self._spent(now):
            days[day] = days.get(day, Hours()) + hours
            total += hours
        oldest = now.date() - timedelta(days=KEPT_DAYS - 1)
        kept = {day: hours for day, hours in days.items() if day >= oldest}
        return replace(self, since=now, total=total, days=kept)

    def _spent(self, now: datetime) -> Iterator[tuple[date, Hours]]:
        """The hours by day. Of a very long time only the days that are kept, as the total needs no more."""
        if self.state is UseState.NONE:
            return
        begin = max(self.since, now - timedelta(days=KEPT_DAYS))
        while begin < now:
            midnight = datetime.combine(begin.date() + timedelta(days=1), datetime.min.time(), UTC)
            end = min(midnight, now)
            yield begin.date(), self._hours((end - begin).total_seconds() / 3600)
            begin = end

    def _hours(self, hours: float) -> Hours:
        cpu, gpu = self.cpus * hours, self.gpus * hours
        if self.state is UseState.USED:
            return Hours(used_cpu=cpu, used_gpu=gpu)
        return Hours(idle_cpu=cpu, idle_gpu=gpu)


def changed(usage: Usage | None, at: datetime, state: UseState, cpus: float, gpus: float) -> Usage:
    """Record that from `at` on the cluster is in this state, with these resources.

    In whole seconds, which is what the annotation keeps: a part of a second would count before and after."""
    at = at.replace(microsecond=0)
    before = usage.until(at) if usage is not None else Usage(state, at)
    if state is UseState.NONE:
        cpus = gpus = 0.0
    return replace(before, state=state, since=max(at, before.since), cpus=cpus, gpus=gpus)


def usage_of(meta: ObjectMeta) -> Usage | None:
    """What is recorded on this cluster; None if it was never watched."""
    return Usage.parse(meta.annotations.get(names.ANNOTATION_USAGE, ""))


def hours_since(usage: Usage, begin: datetime, now: datetime) -> Hours:
    """The hours from the day of `begin` on, which counts as a whole."""
    days = usage.until(now).days
    return sum_of(hours for day, hours in days.items() if day >= begin.date())


def sum_of(hours: Iterable[Hours]) -> Hours:
    total = Hours()
    for one in hours:
        total += one
    return total


def totals(
    clusters: Iterable[tuple[ObjectMeta, Usage]], by: str, begin: datetime, now: datetime
) -> dict[str, Hours]:
    """The hours by `cluster`, `namespace`, `user` or the label of this name; the most idle first."""
    found: dict[str, Hours] = {}
    for meta, usage in clusters:
        who = _group(meta, by)
        found[who] = found.get(who, Hours()) + hours_since(usage, begin, now)
    order = sorted(found.items(), key=lambda one: (-one[1].idle_gpu, -one[1].idle_cpu, one[0]))
    return dict(order)


def _group(meta: ObjectMeta, by: str) -> str:
    match by:
        case "cluster":
            return str(meta.key)
        case "namespace":
            return meta.namespace
        case "user":
            return meta.labels.get(names.LABEL_USER, "")
        case _:
            return meta.labels.get(by, "")


def _day(text: str) -> tuple[date, Hours]:
    day, *values = text.split()
    return date.fromisoformat(day), _hours(values)


def _hours(values: list[str]) -> Hours:
    used_cpu, idle_cpu, used_gpu, idle_gpu = map(_amount, values)
    return Hours(used_cpu, idle_cpu, used_gpu, idle_gpu)


def _amount(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e12:
        raise ValueError(f"{text} is not an amount")
    return value
