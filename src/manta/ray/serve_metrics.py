"""Serve's own metrics of one node: requests, errors and latencies that its proxy counted since it started.

Ray publishes them on the metrics port of each Pod, in Prometheus' text format. Pure.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

_LINES: Final = re.compile(
    rb"^ray_serve_(num_http_requests(?:_total)?|http_request_latency_ms_bucket)\{([^\n]*)\} (\S+)",
    re.MULTILINE,
)
_STATUS: Final = re.compile(rb'status_code="(\d+)')
_BOUND: Final = re.compile(rb'le="([^"]+)"')


@dataclass(frozen=True, slots=True)
class Counts:
    """What one or several proxies counted. An error is a response 5xx: a 404 is the client's."""

    requests: float = 0.0
    errors: float = 0.0
    buckets: Mapping[float, float] = field(default_factory=dict)
    """Requests that took at most so many milliseconds."""

    def since(self, before: Counts) -> Counts:
        """What was counted since then. A proxy that restarted counts from zero again."""
        if self.requests < before.requests:
            return self
        earlier = before.buckets
        buckets = {le: count - earlier.get(le, 0.0) for le, count in self.buckets.items()}
        return Counts(self.requests - before.requests, self.errors - before.errors, buckets)

    def p95(self) -> float | None:
        """The 95th percentile of the latency in milliseconds, linear within its bucket, as Prometheus computes
        it; None without requests."""
        total = max(self.buckets.values(), default=0.0)
        wanted, below, lower = 0.95 * total, 0.0, 0.0
        if total <= 0:
            return None
        for bound, count in sorted(self.buckets.items()):
            if count >= wanted:
                inside = (wanted - below) / (count - below) if count > below else 1.0
                return lower if bound == float("inf") else lower + (bound - lower) * inside
            below, lower = count, bound
        return lower


def total(counts: Iterable[Counts]) -> Counts:
    requests, errors = 0.0, 0.0
    buckets: defaultdict[float, float] = defaultdict(float)
    for one in counts:
        requests, errors = requests + one.requests, errors + one.errors
        for bound, count in one.buckets.items():
            buckets[bound] += count
    return Counts(requests, errors, dict(buckets))


def parse_serve_metrics(text: bytes) -> Counts:
    """The counts in a page of metrics; zero for a proxy that took no request yet. Raises ValueError."""
    requests: dict[bytes, list[tuple[bytes, float]]] = defaultdict(list)
    buckets: defaultdict[float, float] = defaultdict(float)
    for name, labels, number in _LINES.findall(text):
        value = _finite(number)
        if name.startswith(b"num"):
            status = _STATUS.search(labels)
            requests[name].append((status[1] if status else b"", value))
        elif bound := _BOUND.search(labels):
            buckets[_bound(bound[1])] += value
    # Ray may publish the same counter under both names.
    found = requests.get(b"num_http_requests_total") or requests.get(b"num_http_requests") or []
    errors = sum(value for status, value in found if status.startswith(b"5"))
    return Counts(sum(value for _, value in found), errors, dict(buckets))


def _finite(text: bytes) -> float:
    """A count. A page may say anything: what is no number must not pass as one."""
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text[:20]!r} is not a count")
    return value


def _bound(text: bytes) -> float:
    value = float(text)
    if math.isnan(value):
        raise ValueError(f"{text[:20]!r} is not a bound of a bucket")
    return value
