"""The operator's metrics as numbers: from the text that Prometheus would scrape. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

_LINE: Final = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_QUEUED: Final = "workqueue_depth"
_DELAYED: Final = "manta_queue_delayed"
_RUNNING: Final = "controller_runtime_active_workers"
_TOTAL: Final = "controller_runtime_reconcile_total"
_ERRORS: Final = "controller_runtime_reconcile_errors_total"
_SECONDS: Final = "controller_runtime_reconcile_time_seconds_bucket"
_TROUBLE: Final = "manta_watch_trouble"
_READ: Final = frozenset((_QUEUED, _DELAYED, _RUNNING, _TOTAL, _ERRORS, _SECONDS, _TROUBLE))
Buckets = Mapping[float, float]
"""How many took at most so many seconds."""


@dataclass(frozen=True, slots=True)
class Controller:
    name: str
    queued: float = 0.0
    """Keys that are ready and wait for a worker."""
    delayed: float = 0.0
    """Keys that wait for a timer."""
    running: float = 0.0
    reconciles: float = 0.0
    """Since the operator started, as are the failures."""
    failures: float = 0.0
    seconds: tuple[tuple[float, float], ...] = ()
    """Buckets of their duration."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the operators said at a moment, added up over their Pods."""

    at: datetime
    controllers: tuple[Controller, ...] = ()
    troubles: tuple[str, ...] = ()
    """Resources whose watch fails now."""
    pods: frozenset[str] = frozenset()
    """Those that it is the sum of."""
    silent: tuple[str, ...] = ()
    """Why it is not that of all."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What happened between two readings."""

    reconciles: float = 0.0
    """A second."""
    failures: float = 0.0
    p95: float | None = None
    """Seconds of a reconcile; None: there was none."""


def reading_of(
    texts: Iterable[str],
    at: datetime,
    pods: frozenset[str] = frozenset(),
    silent: tuple[str, ...] = (),
) -> Reading:
    """The sum of the pages of metrics of all operators."""
    numbers: dict[str, dict[str, float]] = {}
    buckets: dict[str, dict[float, float]] = {}
    for text in texts:
        for name, labels, value in _samples(text):
            who = labels.get("controller") or labels.get("name") or labels.get("resource") or ""
            if name == _SECONDS:
                held = buckets.setdefault(who, {})
                edge = float(labels.get("le", "inf"))
                held[edge] = held.get(edge, 0.0) + value
            else:
                counted = numbers.setdefault(name, {})
                counted[who] = counted.get(who, 0.0) + value
    names = sorted({*numbers.get(_TOTAL, {}), *numbers.get(_QUEUED, {})})
    controllers = tuple(_controller(one, numbers, buckets.get(one, {})) for one in names)
    troubles = tuple(sorted(who for who, held in numbers.get(_TROUBLE, {}).items() if held))
    return Reading(at, controllers, troubles, pods, silent)


def _samples(text: str) -> Iterable[tuple[str, dict[str, str], float]]:
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None or found[1] not in _READ:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        yield found[1], dict(_LABEL.findall(found[2] or "")), value


def _controller(
    name: str, numbers: Mapping[str, Mapping[str, float]], seconds: Buckets
) -> Controller:
    def number(metric: str) -> float:
        return numbers.get(metric, {}).get(name, 0.0)

    return Controller(
        name,
        number(_QUEUED),
        number(_DELAYED),
        number(_RUNNING),
        number(_TOTAL),
        number(_ERRORS),
        tuple(sorted(seconds.items())),
    )


def rates(before: Reading | None, after: Reading, name: str = "") -> Rates | None:
    """The rates of one controller, or of all together; None: they are not known yet, or other Pods answered. An
    operator that started again counts from 0."""
    if before is None or before.pods != after.pods:
        return None
    if (elapsed := (after.at - before.at).total_seconds()) <= 0:
        return None
    earlier = {one.name: one for one in before.controllers}
    reconciles = failures = 0.0
    buckets: dict[float, float] = {}
    for one in after.controllers:
        if name and one.name != name:
            continue
        old = earlier.get(one.name, Controller(one.name))
        if old.reconciles > one.reconciles:
            old = Controller(one.name)
        reconciles += one.reconciles - old.reconciles
        failures += one.failures - old.failures
        held = dict(old.seconds)
        for edge, count in one.seconds:
            buckets[edge] = buckets.get(edge, 0.0) + count - held.get(edge, 0.0)
    return Rates(reconciles / elapsed, failures / elapsed, quantile(0.95, buckets))


def quantile(share: float, buckets: Buckets) -> float | None:
    """The quantile as by Prometheus' histogram_quantile: linear inside of a bucket. None: nothing was counted."""
    edges: Sequence[float] = sorted(buckets)
    total = buckets[edges[-1]] if edges else 0.0
    if total <= 0:
        return None
    low, below = 0.0, 0.0
    for edge in edges:
        if buckets[edge] >= share * total:
            if edge == float("inf"):
                return low
            inside = buckets[edge] - below
            return low + (edge - low) * ((share * total - below) / inside if inside else 1.0)
        low, below = edge, buckets[edge]
    return low
