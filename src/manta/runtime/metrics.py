"""Counters, gauges and histograms in Prometheus' text form.

Small on purpose: the names and labels are those of controller-runtime, client-go and its work
queue, so that dashboards made for KubeRay keep working; our own start with `manta_`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from manta.runtime.queue import Done, Retry

Labels = tuple[str, ...]
LATENCIES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: the name's ending, further labels and the value."""

    values: Labels
    value: float
    suffix: str = ""
    extra: Mapping[str, str] | None = None


class Metric:
    """A family: one name, one help text, one set of label names."""

    type = "untyped"

    def __init__(self, name: str, about: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.about = about
        self.labels = tuple(labels)

    def samples(self) -> Iterator[Sample]:
        raise NotImplementedError


class Counter(Metric):
    type = "counter"

    def __init__(self, name: str, about: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, about, labels)
        self._values: dict[Labels, float] = {}

    def add(self, *values: str, by: float = 1.0) -> None:
        self._values[values] = self._values.get(values, 0.0) + by

    def get(self, *values: str) -> float:
        return self._values.get(values, 0.0)

    def samples(self) -> Iterator[Sample]:
        return (Sample(values, value) for values, value in tuple(self._values.items()))


class Gauge(Counter):
    type = "gauge"

    def set(self, value: float, *values: str) -> None:
        self._values[values] = value

    def remove(self, *values: str) -> None:
        self._values.pop(values, None)


class Computed(Metric):
    """A family worked out at the scrape, so that keeping it costs nothing in between."""

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

    def samples(self) -> Iterator[Sample]:
        return (Sample(values, value) for values, value in self._compute())


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
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *values: str) -> None:
        counts = self._counts.get(values)
        if counts is None:
            counts = self._counts[values] = [0] * (len(self._bounds) + 1)
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[values] = self._sums.get(values, 0.0) + value

    def count(self, *values: str) -> int:
        return sum(self._counts.get(values, ()))

    def samples(self) -> Iterator[Sample]:
        for values, counts in tuple(self._counts.items()):
            total = 0
            for bound, count in zip((*self._bounds, None), counts, strict=True):
                total += count
                edge = "+Inf" if bound is None else _number(bound)
                yield Sample(values, total, "_bucket", {"le": edge})
            yield Sample(values, self._sums[values], "_sum")
            yield Sample(values, total, "_count")


class Registry:
    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def register(self, metric: Metric) -> None:
        if metric.name in self._metrics:
            raise ValueError(f"metric {metric.name} is registered twice")
        self._metrics[metric.name] = metric

    @property
    def families(self) -> Mapping[str, Metric]:
        return self._metrics

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

    def render(self) -> str:
        """The whole registry as `text/plain; version=0.0.4`."""
        return "".join(line for metric in self._metrics.values() for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {_escape(metric.about, quotes=False)}\n"
    yield f"# TYPE {metric.name} {metric.type}\n"
    for sample in metric.samples():
        pairs = dict(zip(metric.labels, sample.values, strict=True)) | dict(sample.extra or {})
        inner = ",".join(f'{name}="{_escape(value)}"' for name, value in pairs.items())
        braces = f"{{{inner}}}" if inner else ""
        yield f"{metric.name}{sample.suffix}{braces} {_number(sample.value)}\n"


def _escape(text: str, *, quotes: bool = True) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    return (
        str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
    )


class RuntimeMetrics:
    """The families that every controller shares."""

    def __init__(self, registry: Registry) -> None:
        name = ("name",)
        controller = ("controller",)
        self.registry = registry
        self.depth = registry.gauge("workqueue_depth", "Keys ready to run.", name)
        self.adds = registry.counter("workqueue_adds_total", "Keys added.", name)
        self.waited = registry.histogram(
            "workqueue_queue_duration_seconds", "How long a key waited for a worker.", name
        )
        self.worked = registry.histogram(
            "workqueue_work_duration_seconds", "How long a key was worked on.", name
        )
        self.retries = registry.counter(
            "workqueue_retries_total", "Keys put back with backoff.", name
        )
        self.total = registry.counter(
            "controller_runtime_reconcile_total", "Rounds by result.", ("controller", "result")
        )
        self.errors = registry.counter(
            "controller_runtime_reconcile_errors_total", "Rounds that failed.", controller
        )
        self.time = registry.histogram(
            "controller_runtime_reconcile_time_seconds", "How long a round took.", controller
        )

        self.failures = registry.counter(
            "manta_reconcile_failures_total",
            "Reconciles that raised, by the phase that did.",
            ("controller", "phase"),
        )

    def of(self, controller: str) -> ControllerMetrics:
        return ControllerMetrics(self, controller)


_METHODS = {
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "apply": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}


class ApiMetrics:
    """The observer of a client: requests by method and code, as client-go counts them."""

    def __init__(self, registry: Registry, server: str) -> None:
        self._host = urlsplit(server).netloc.rpartition("@")[2]
        self._requests = registry.counter(
            "rest_client_requests_total",
            "Requests to the API server.",
            ("code", "host", "method"),
        )
        self._seconds = registry.histogram(
            "rest_client_request_duration_seconds", "How long they took.", ("verb", "host")
        )
        self._by_resource = registry.counter(
            "manta_api_requests_total",
            "Requests by what they were about.",
            ("verb", "resource", "code"),
        )

    def __call__(self, verb: str, resource: str, code: int, seconds: float) -> None:
        method = _METHODS.get(verb, "GET")
        told = str(code) if code else "<error>"  # as client-go calls it when no answer came
        self._requests.add(told, self._host, method)
        self._by_resource.add(verb, resource, told)
        if verb != "watch":  # a watch lasts as long as it is useful
            self._seconds.observe(seconds, method, self._host)


class ControllerMetrics:
    """The queue's observer, and the results of rounds, of one controller."""

    def __init__(self, shared: RuntimeMetrics, controller: str) -> None:
        self._shared = shared
        self._name = controller

    def added(self, depth: int) -> None:
        self._shared.adds.add(self._name)
        self._shared.depth.set(depth, self._name)

    def handed_out(self, waited: float, depth: int) -> None:
        self._shared.waited.observe(waited, self._name)
        self._shared.depth.set(depth, self._name)

    def finished(self, worked: float) -> None:
        self._shared.worked.observe(worked, self._name)
        self._shared.time.observe(worked, self._name)

    def retried(self) -> None:
        self._shared.retries.add(self._name)

    def failed(self, phase: str) -> None:
        self._shared.failures.add(self._name, phase)

    def reconciled(self, result: Done | Retry) -> None:
        if isinstance(result, Retry):
            self._shared.errors.add(self._name)
            self._shared.total.add(self._name, "error")
        elif result.retry_in is not None:
            self._shared.total.add(self._name, "requeue_after")
        else:
            self._shared.total.add(self._name, "success")
