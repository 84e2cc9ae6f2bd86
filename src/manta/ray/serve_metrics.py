"""Serve's own metrics of one node: requests, errors and latencies that its proxy counted since it started.

Ray publishes them on the metrics port of each Pod, in Prometheus' text format. Pure.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

_LINES: Final = re.compile(
    rb"^ray_serve_(num_(?:ongoing_)?http_requests(?:_total)?|http_request_latency_ms_bucket)\{([^\n]*)\} (\S+)",
    re.MULTILINE,
)
_STATUS: Final = re.compile(rb'status_code="(\d+)')
_TIMED_OUT: Final = b"408"
"""Serve's answer to a request that took longer than its `request_timeout_s`."""
_GIVEN_UP: Final = b"499"
"""Serve counts with it a request whose caller closed the connection."""
_BOUND: Final = re.compile(rb'le="([^"]+)"')


@dataclass(frozen=True, slots=True)
class Counts:
    """What one or several proxies counted. An error is a response 5xx, or one that came too late: a 404 is the client's."""

    requests: float = 0.0
    """Those that were answered."""
    errors: float = 0.0
    buckets: Mapping[float, float] = field(default_factory=dict)
    """Requests that took at most so many milliseconds."""
    given_up: float = 0.0
    """Requests whose callers went away without an answer."""
    ongoing: float = 0.0
    """Requests that wait for their answer now."""

    def since(self, before: Counts) -> Counts:
        """What was counted since then. A proxy that restarted counts from zero again."""
        if self.requests < before.requests or self.given_up < before.given_up:
            return self
        earlier = before.buckets
        buckets = {le: count - earlier.get(le, 0.0) for le, count in self.buckets.items()}
        return replace(
            self,
            requests=self.requests - before.requests,
            errors=self.errors - before.errors,
            buckets=buckets,
            given_up=self.given_up - before.given_up,
        )

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
    found, buckets = tuple(counts), defaultdict[float, float](float)
    for one in found:
        for bound, count in one.buckets.items():
            buckets[bound] += count
    return Counts(
        requests=sum(one.requests for one in found),
        errors=sum(one.errors for one in found),
        buckets=dict(buckets),
        given_up=sum(one.given_up for one in found),
        ongoing=sum(one.ongoing for one in found),
    )


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
    given_up = sum(value for status, value in found if status == _GIVEN_UP)
    return Counts(
        requests=sum(value for _, value in found) - given_up,
        errors=sum(value for status, value in found if _is_error(status)),
        buckets=dict(buckets),
        given_up=given_up,
        ongoing=sum(value for _, value in requests.get(b"num_ongoing_http_requests", ())),
    )


def _is_error(status: bytes) -> bool:
    return status.startswith(b"5") or status == _TIMED_OUT


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
