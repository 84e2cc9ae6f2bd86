"""The verdict about a canary: whether the figures of the new cluster keep the limits. Pure.

A limit that is broken rolls the upgrade back. What cannot be measured holds the next step, and never passes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

from manta.api.ray.service import CanaryAnalysis


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one cluster within the window."""

    requests: int = 0
    errors: int = 0
    p95: float | None = None
    """Milliseconds."""
    hangs: int = 0
    """Requests that wait or were given up, if none was answered in a whole window and some waited as it began."""

    @property
    def error_percent(self) -> float:
        return 100 * self.errors / self.requests if self.requests else 0.0

    def __str__(self) -> str:
        latency = "" if self.p95 is None else f", p95 {self.p95:.0f} ms"
        return f"{self.error_percent:.1f} % errors of {self.requests} requests{latency}"


@dataclass(frozen=True, slots=True)
class Reading:
    old: Figures = Figures()
    new: Figures = Figures()
    expected: int = 0
    """Answers of the new cluster, if its Pods answered as many requests as those of the old one did."""
    error: str = ""
    """Why Serve's metrics could not be read completely."""
    queried: float | None = None
    """What Prometheus answered."""
    query_error: str = ""


class Judgement(Enum):
    PASS = auto()
    HOLD = auto()
    BROKEN = auto()


@dataclass(frozen=True, slots=True)
class Verdict:
    judgement: Judgement
    text: str


def verdict(analysis: CanaryAnalysis, reading: Reading | None) -> Verdict:
    if reading is None:
        return Verdict(Judgement.HOLD, "waiting for the first figures of Serve's metrics")
    broken = _broken_limit(analysis, reading)
    if broken:
        text = f"{broken}; new cluster: {reading.new}; old cluster: {reading.old}"
        return Verdict(Judgement.BROKEN, text)
    missing = _missing(analysis, reading)
    if missing:
        return Verdict(Judgement.HOLD, missing)
    return Verdict(Judgement.PASS, f"new cluster: {reading.new}")


def _broken_limit(analysis: CanaryAnalysis, reading: Reading) -> str:
    new, most, slowest = reading.new, analysis.max_error_percent, analysis.max_p95_milliseconds
    if new.requests >= analysis.min_requests:
        if most is not None and new.error_percent > most:
            return f"{new.error_percent:.1f} % of the responses are errors (limit {most:g} %)"
        if slowest is not None and new.p95 is not None and new.p95 > slowest:
            return f"the 95th percentile of the latency is {new.p95:.0f} ms (limit {slowest} ms)"
    if _hangs(analysis, reading):
        what = f"no request was answered in {analysis.window_seconds} s, {new.hangs} wait or were given up"
        return f"{what}; the old cluster would have answered {reading.expected}"
    query, value = analysis.prometheus, reading.queried
    if query is not None and value is not None and value > query.max:
        return f"Prometheus answers {value:g} (limit {query.max:g})"
    return ""


def _hangs(analysis: CanaryAnalysis, reading: Reading) -> bool:
    """Whether the new cluster takes requests and answers none. Not without requests: callers may keep open connections
    to the old one. And not where too few are expected for any other verdict."""
    return reading.new.hangs > 0 and reading.expected >= analysis.min_requests and not reading.error


def _missing(analysis: CanaryAnalysis, reading: Reading) -> str:
    if reading.error:
        return f"Serve's metrics cannot be read: {reading.error}"
    limited = (analysis.max_error_percent, analysis.max_p95_milliseconds) != (None, None)
    if limited and reading.new.requests < analysis.min_requests:
        seen = f"{reading.new.requests} of {analysis.min_requests} requests"
        return f"the new cluster took {seen} that a verdict needs in {analysis.window_seconds} s"
    if analysis.prometheus is None:
        return ""
    if reading.query_error:
        return f"Prometheus cannot be queried: {reading.query_error}"
    if reading.queried is None or math.isnan(reading.queried):
        return "Prometheus has no number for the query yet"
    return ""
