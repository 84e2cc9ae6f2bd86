"""Counters, gauges and histograms, in the text formats of Prometheus and OpenMetrics.

prometheus-client checks names and writes the text. The values are kept here: reconciles run on one thread,
and need neither its locks nor one object per series.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

Labels = tuple[str, ...]
LATENCIES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)

log = logging.getLogger(__name__)


class Metric:
    """A family: one name, one help text, one set of label names."""

    type = "untyped"

    def __init__(self, name: str, about: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.about = about
        self.labels = tuple(labels)

    def fill(self, family: Family, *, canonical: bool) -> None:
        """Add the current samples. `canonical`: format numbers in labels as OpenMetrics requires."""
        raise NotImplementedError

    def _checked(self, values: Labels) -> Labels:
        """The values. Raises ValueError for a wrong number of labels, when the series is first written."""
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, not {values}")
        return values

    def _named(self, values: Labels) -> dict[str, str]:
        return dict(zip(self.labels, values, strict=True))


class Counter(Metric):
    type = "counter"

    def __init__(self, name: str, about: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, about, labels)
        self._values: dict[Labels, float] = {}

    def add(self, *values: str, by: float = 1.0) -> None:
        before = self._values.get(values)
        if before is None:
            before, values = 0.0, self._checked(values)
        self._values[values] = before + by

    def get(self, *values: str) -> float:
        return self._values.get(values, 0.0)

    def fill(self, family: Family, *, canonical: bool) -> None:
        del canonical
        for values, value in tuple(self._values.items()):
            family.add_sample(self.name, self._named(values), value)


class Gauge(Counter):
    type = "gauge"

    def set(self, value: float, *values: str) -> None:
        if values not in self._values:
            self._checked(values)
        self._values[values] = value

    def remove(self, *values: str) -> None:
        self._values.pop(values, None)


class Computed(Metric):
    """A family that is computed at each scrape."""

    def __init__(
        self,
        name: str,
        about: str,
        labels: Sequence[str],
        compute: Callable[[], Iterable[tuple[Labels, float]]],
        *,
        kind: str = "gauge",
    ) -> None:
        super().__init__(name, about, labels)
        self.type = kind
        self._compute = compute

    def fill(self, family: Family, *, canonical: bool) -> None:
        del canonical
        for values, value in self._compute():
            family.add_sample(self.name, self._named(self._checked(values)), value)


class Histogram(Metric):
    type = "histogram"

    def __init__(
        self,
        name: str,
        about: str,
        labels: Sequence[str] = (),
        buckets: Sequence[float] = LATENCIES,
    ) -> None:
        super().__init__(name, about, labels)
        self._bounds = tuple(buckets)
        self._edges = (*map(_edge, self._bounds), "+Inf")
        self._canonical = (*(repr(float(one)) for one in self._bounds), "+Inf")
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        self._exemplars: dict[tuple[Labels, int], tuple[str, float]] = {}
        """The trace and value of the last traced observation in each bucket."""

    def observe(self, value: float, *values: str, trace: str = "") -> None:
        """`trace`: the id of the trace that the value belongs to, if any."""
        counts = self._counts.get(values)
        if counts is None:
            counts = self._counts[self._checked(values)] = [0] * len(self._edges)
        bucket = bisect_left(self._bounds, value)
        counts[bucket] += 1
        self._sums[values] = self._sums.get(values, 0.0) + value
        if trace:
            self._exemplars[values, bucket] = (trace, value)

    def count(self, *values: str) -> int:
        return sum(self._counts.get(values, ()))

    def fill(self, family: Family, *, canonical: bool) -> None:
        edges = self._canonical if canonical else self._edges
        for values, counts in tuple(self._counts.items()):
            labels, total = self._named(values), 0
            for bucket, (edge, count) in enumerate(zip(edges, counts, strict=True)):
                total += count
                exemplar = self._exemplar(values, bucket)
                name = f"{self.name}_bucket"
                family.add_sample(name, {**labels, "le": edge}, total, exemplar=exemplar)
            family.add_sample(f"{self.name}_sum", labels, self._sums[values])
            family.add_sample(f"{self.name}_count", labels, total)

    def _exemplar(self, values: Labels, bucket: int) -> Any:
        found = self._exemplars.get((values, bucket))
        if found is None:
            return None
        from prometheus_client.samples import Exemplar

        trace, value = found
        return Exemplar({"trace_id": trace}, value, None)


class Registry:
    """The families of one process. `render` never raises: a family that fails is left out."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}
        self._collectors: list[Any] = []
        self._broken = Counter(
            "manta_metrics_errors_total", "Families left out of a scrape.", ("family",)
        )
        """Rendered last, so that it counts this scrape too."""

    def register(self, metric: Metric) -> None:
        """Render the metric from now on. Raises ValueError if its name is taken or badly formed."""
        if metric.name in self._metrics:
            raise ValueError(f"metric {metric.name} is registered twice")
        if metric.type == "counter" and not metric.name.endswith("_total"):
            raise ValueError(f"the name of counter {metric.name} does not end with _total")
        self._metrics[metric.name] = metric

    def register_collector(self, collector: Any) -> None:
        """Add a collector of prometheus-client, such as that of the process."""
        self._collectors.append(collector)

    @property
    def families(self) -> Mapping[str, Metric]:
        """All families, including those of prometheus-client: for the documentation."""
        others = (one for each in self._collectors for one in each.collect())
        return {**self._metrics, **{one.name: one for one in map(_described, others)}}

    def counter(self, name: str, about: str, labels: Sequence[str] = ()) -> Counter:
        metric = Counter(name, about, labels)
        self.register(metric)
        return metric

    def gauge(self, name: str, about: str, labels: Sequence[str] = ()) -> Gauge:
        metric = Gauge(name, about, labels)
        self.register(metric)
        return metric

    def histogram(
        self,
        name: str,
        about: str,
        labels: Sequence[str] = (),
        buckets: Sequence[float] = LATENCIES,
    ) -> Histogram:
        metric = Histogram(name, about, labels, buckets)
        self.register(metric)
        return metric

    def collect(self, *, canonical: bool = False) -> Iterator[Family]:
        for metric in (*self._metrics.values(), *self._collectors, self._broken):
            try:
                yield from self._families(metric, canonical=canonical)
            except Exception:
                name = getattr(metric, "name", type(metric).__name__)
                log.exception("metric %s is left out of this scrape", name)
                self._broken.add(name)

    def _families(self, metric: Any, *, canonical: bool) -> tuple[Family, ...]:
        if not isinstance(metric, Metric):
            return tuple(metric.collect())
        from prometheus_client import Metric as Family

        name = metric.name.removesuffix("_total") if metric.type == "counter" else metric.name
        family = Family(name, metric.about, metric.type)
        metric.fill(family, canonical=canonical)
        return (family,)

    def render(self) -> str:
        """The registry as `text/plain; version=0.0.4`."""
        return self.rendered("")[0]

    def rendered(self, accept: str) -> tuple[str, str]:
        """The text and its media type: OpenMetrics if `accept` asks for it."""
        from prometheus_client.exposition import choose_encoder

        encode, media_type = choose_encoder(accept)
        scrape: Any = _Scrape(self, canonical="openmetrics" in media_type)
        return encode(scrape).decode(), media_type


class _Scrape:
    """A registry with the interface that prometheus-client's encoders need."""

    def __init__(self, registry: Registry, *, canonical: bool) -> None:
        self._registry = registry
        self._canonical = canonical

    def collect(self) -> Iterator[Family]:
        return self._registry.collect(canonical=self._canonical)


def _described(family: Family) -> Metric:
    labels = tuple(family.samples[0].labels) if family.samples else ()
    name = f"{family.name}_total" if family.type == "counter" else family.name
    described = Metric(name, family.documentation, labels)
    described.type = family.type
    return described


def _edge(bound: float) -> str:
    """The bound as Go writes it: `1`, not `1.0`."""
    return str(int(bound)) if float(bound).is_integer() else repr(float(bound))
