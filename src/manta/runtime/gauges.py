"""What the runtime holds right now, worked out at each scrape so that it costs nothing between."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from manta.runtime.controller import Controller
from manta.runtime.informer import Informer
from manta.runtime.metrics import Computed, Labels, Registry
from manta.runtime.recorder import Recorder


def register_caches(registry: Registry, informers: Collection[Informer[Any]]) -> None:
    """`informers` is looked at anew each time, so later ones are counted too."""

    def family(name: str, about: str, measure: Callable[[Informer[Any]], float], kind: str) -> None:
        def compute() -> list[tuple[Labels, float]]:
            # A resource may have several informers, with different selectors: one line for all.
            return _summed((one.resource.group_resource, measure(one)) for one in informers)

        registry.register(Computed(name, about, ("resource",), compute, kind=kind))

    family("manta_cache_objects", "Objects held.", len, "gauge")
    family(
        "manta_cache_bytes",
        "Their size as JSON, estimated.",
        lambda one: one.estimated_bytes(),
        "gauge",
    )
    family(
        "manta_watch_restarts_total",
        "Watches taken up again.",
        lambda one: one.restarts,
        "counter",
    )
    family(
        "manta_watch_trouble",
        "Watches that cannot be kept up now.",
        lambda one: float(one.trouble is not None),
        "gauge",
    )


def register_controllers(registry: Registry, controllers: Collection[Controller]) -> None:
    def family(name: str, about: str, label: str, measure: Callable[[Controller], float]) -> None:
        def compute() -> list[tuple[Labels, float]]:
            return _summed((one.name, measure(one)) for one in controllers)

        registry.register(Computed(name, about, (label,), compute))

    family(
        "workqueue_longest_running_processor_seconds",
        "How long the oldest round has been going on.",
        "name",
        lambda one: one.queue.longest_running(),
    )
    family(
        "controller_runtime_active_workers",
        "Rounds going on.",
        "controller",
        lambda one: one.queue.running,
    )
    family(
        "controller_runtime_max_concurrent_reconciles",
        "Rounds that may go on at once.",
        "controller",
        lambda one: one.workers,
    )
    family(
        "manta_queue_delayed",
        "Keys that wait for a timer.",
        "controller",
        lambda one: one.queue.delayed,
    )


def register_recorder(registry: Registry, recorder: Recorder) -> None:
    def plain(name: str, about: str, measure: Callable[[], float]) -> None:
        registry.register(Computed(name, about, (), lambda: [((), measure())], kind="counter"))

    plain("manta_events_written_total", "Events written.", lambda: recorder.written)
    plain("manta_events_dropped_total", "Events not written.", lambda: recorder.dropped)


def register_process(registry: Registry) -> None:
    """The process and its garbage collector, as every Prometheus client library describes them."""
    from prometheus_client import (
        CollectorRegistry,
        GCCollector,
        PlatformCollector,
        ProcessCollector,
    )

    nowhere: Any = CollectorRegistry()
    for kind in (ProcessCollector, PlatformCollector, GCCollector):
        registry.register_collector(kind(registry=nowhere))


def _summed(values: Iterable[tuple[str, float]]) -> list[tuple[Labels, float]]:
    sums: dict[str, float] = {}
    for name, value in values:
        sums[name] = sums.get(name, 0.0) + value
    return [((name,), value) for name, value in sums.items()]
