"""Reads the figures of both clusters during a canary: Serve's metrics of some Pods, and a query to Prometheus.

Only while a canary with limits has traffic. The counters of a window are kept in memory: after a restart of the
operator the window begins again, and the canary holds until it is filled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from manta.api.meta import Key
from manta.api.ray.service import CanaryAnalysis
from manta.controllers.rayservice.canary_subjects import Subject, subjects
from manta.controllers.rayservice.facts.canary import is_shared
from manta.controllers.rayservice.facts.clusters import is_rolling_back
from manta.controllers.rayservice.facts.phase import Phase, phase
from manta.controllers.rayservice.serve_answers import WatchKey
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.ray.models import Unreachable
from manta.ray.poller import DashboardPoller, PollInterval
from manta.ray.serve_metrics import Counts, parse_serve_metrics, total
from manta.ray.transport import Reply
from manta.rules.canary_analysis import Figures, Reading
from manta.runtime.clock import Clock

TICK: Final = 1.0
"""Seconds. A service is read at the ticks that its interval allows."""
MAX_AGE: Final = 45.0
"""Seconds. Older figures count as none: the longest interval, and the longest wait for an answer, are shorter."""


ReadMetrics = Callable[[Subject], Awaitable[Reply | Unreachable]]
AskPrometheus = Callable[[str], Awaitable[float | str]]


@dataclass(slots=True)
class _Window:
    """The counters of one cluster's Pods, oldest first."""

    readings: deque[tuple[float, dict[str, Counts]]] = field(default_factory=deque)

    def add(self, now: float, counts: dict[str, Counts], seconds: float) -> None:
        self.readings.append((now, counts))
        while len(self.readings) > 1 and self.readings[1][0] <= now - seconds:
            self.readings.popleft()

    def figures(self, seconds: float) -> Figures:
        """What was counted from the first to the last reading of each Pod within the window."""
        if not self.readings:
            return Figures()
        first: dict[str, Counts] = {}
        for _, counts in self.readings:
            for uid, one in counts.items():
                first.setdefault(uid, one)
        latest = self.readings[-1][1]
        summed = total(one.since(first[uid]) for uid, one in latest.items())
        hangs = 0 if summed.requests else self._unanswered(summed, seconds)
        return Figures(round(summed.requests), round(summed.errors), summed.p95(), hangs)

    def _unanswered(self, summed: Counts, seconds: float) -> int:
        (began, first), (ended, _) = self.readings[0], self.readings[-1]
        is_whole = ended - began >= seconds and total(first.values()).ongoing > 0
        return round(summed.ongoing + summed.given_up) if is_whole else 0


@dataclass(slots=True)
class _Service:
    """What is known of one RayService."""

    subject: WatchKey
    windows: dict[str, _Window] = field(default_factory=dict)
    read_at: float = 0.0
    reading: Reading | None = None


@dataclass(frozen=True, slots=True)
class _Order:
    """What is read for one RayService."""

    analysis: CanaryAnalysis
    old: tuple[Subject, ...]
    new: tuple[Subject, ...]
    clusters: tuple[str, str]
    query: str


class CanaryReadings:
    def __init__(
        self,
        changed: Callable[[WatchKey], None],
        read_metrics: ReadMetrics,
        ask_prometheus: AskPrometheus,
        failed: Callable[[Exception], None],
        clock: Clock,
    ) -> None:
        self._poller: DashboardPoller[WatchKey, Reading] = DashboardPoller(
            changed, PollInterval(fast=TICK, slow=TICK), failed=failed
        )
        self._read_metrics, self._ask = read_metrics, ask_prometheus
        self._clock = clock
        self._services: dict[Key, _Service] = {}

    def add_to(self, snapshot: ServiceSnapshot) -> ServiceSnapshot:
        """The snapshot with the latest figures. Reads those that it needs, and no others."""
        key = snapshot.service.metadata.key
        order = _order(snapshot)
        if order is None:
            self.forget(key)
            return snapshot
        subject = WatchKey(key, snapshot.pending_name)
        if key in self._services and self._services[key].subject != subject:
            self.forget(key)
        state = self._services.setdefault(key, _Service(subject))

        async def fetch() -> Reading:
            return await self._read(state, order)

        reading = self._poller.latest(subject, order.clusters, fetch, expecting_change=True)
        is_old = self._clock.monotonic() - state.read_at > MAX_AGE
        return replace(snapshot, canary_reading=None if is_old else reading)

    def forget(self, key: Key) -> None:
        state = self._services.pop(key, None)
        if state is not None:
            self._poller.forget(state.subject)

    def close(self) -> None:
        self._services.clear()
        self._poller.close()

    async def run(self) -> None:
        await self._poller.run()

    async def _read(self, state: _Service, order: _Order) -> Reading:
        now = self._clock.monotonic()
        windows = [state.windows.setdefault(name, _Window()) for name in order.clusters]
        if state.reading is not None and now - state.read_at < order.analysis.interval_seconds:
            return state.reading
        old, new, queried = await asyncio.gather(
            self._counts(order.old), self._counts(order.new), self._query(order.query)
        )
        seconds = order.analysis.window_seconds
        for window, (counts, _) in zip(windows, (old, new), strict=True):
            window.add(now, counts, seconds)
        state.read_at = now
        before, after = (one.figures(seconds) for one in windows)
        state.reading = Reading(
            before,
            after,
            expected=before.requests * len(order.new) // max(1, len(order.old)),
            error=new[1] or old[1],
            queried=queried if isinstance(queried, float) else None,
            query_error=queried if isinstance(queried, str) else "",
        )
        return state.reading

    async def _query(self, query: str) -> float | str:
        return await self._ask(query) if query else ""

    async def _counts(self, pods: tuple[Subject, ...]) -> tuple[dict[str, Counts], str]:
        """The counters by Pod, and why some are missing."""
        replies = await asyncio.gather(*(self._read_metrics(one) for one in pods))
        found: dict[str, Counts] = {}
        error = "" if pods else "no Pod takes requests"
        for one, reply in zip(pods, replies, strict=True):
            if isinstance(reply, Unreachable):
                error = f"Pod {one.name}: {reply.why}"
            elif reply.status != 200:
                error = f"Pod {one.name} answered {reply.status}"
            else:
                try:
                    found[one.uid] = parse_serve_metrics(reply.body)
                except ValueError as problem:
                    error = f"Pod {one.name}: {problem}"
        return found, error


def _order(snapshot: ServiceSnapshot) -> _Order | None:
    """What to read; None unless a canary with limits has traffic."""
    analysis = snapshot.canary_options.analysis if snapshot.is_canary else None
    active, pending = snapshot.active, snapshot.pending
    if analysis is None or active is None or pending is None:
        return None
    if phase(snapshot) is not Phase.SERVING or is_rolling_back(snapshot):
        return None
    if not is_shared(snapshot):
        return None
    query = analysis.prometheus.query if analysis.prometheus is not None else ""
    for word, name in {
        "$new": pending.name,
        "$old": active.name,
        "$namespace": snapshot.service.metadata.namespace,
    }.items():
        query = query.replace(word, name)
    clusters = (active.name, pending.name)
    return _Order(
        analysis, subjects(snapshot, active), subjects(snapshot, pending), clusters, query
    )
