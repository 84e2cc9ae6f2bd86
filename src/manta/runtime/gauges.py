"""Gauges that are computed at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from manta.runtime.controller import Controller
from manta.runtime.informer import Informer
from manta.runtime.metrics import Computed, Labels, Registry
from manta.runtime.recorder import Recorder


def register_caches(registry: Registry, informers: Collection[Informer[Any]]) -> None:
    """`informers` is read at each scrape, so later ones count too."""

    def family(name: str, about: str, measure: Callable[[Informer[Any]], float], kind: str) -> None:
        def compute() -> list[tuple[Labels, float]]:
            # A resource may have several informers with different selectors: one sum for all.
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
        "manta_watch_restarts_total", "Restarts of watches.", lambda one: one.restarts, "counter"
    )
    family(
        "manta_index_failures_total",
        "Objects that an index could not take: reconciles may overlook them.",
        lambda one: one.index_failures,
        "counter",
    )
    family(
        "manta_watch_trouble",
        "Watches that fail now.",
        lambda one: float(one.watch_error is not None),
        "gauge",
    )


def register_controllers(registry: Registry, controllers: Collection[Controller]) -> None:
    def family(name: str, about: str, label: str, measure: Callable[[Controller], float]) -> None:
        def compute() -> list[tuple[Labels, float]]:
            return _summed((one.name, measure(one)) for one in controllers)

        registry.register(Computed(name, about, (label,), compute))

    family(
        "workqueue_longest_running_processor_seconds",
        "How long the oldest running reconcile has taken so far.",
        "name",
        lambda one: one.queue.longest_running(),
    )
    family(
        "controller_runtime_active_workers",
        "Running reconciles.",
        "controller",
        lambda one: one.queue.running,
    )
    family(
        "controller_runtime_max_concurrent_reconciles",
        "Reconciles that may run at once.",
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
    """The standard metrics of the process and its garbage collector."""
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
