"""What the caches hold, worked out at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from manta.runtime.informer import Informer
from manta.runtime.metrics import Computed, Labels, Registry

_LABELS = ("resource",)


def register_cache_metrics(registry: Registry, informers: Collection[Informer[Any]]) -> None:
    """`informers` is looked at anew each time, so later ones are counted too."""

    def family(name: str, about: str, measure: Callable[[Informer[Any]], float], kind: str) -> None:
        def compute() -> list[tuple[Labels, float]]:
            # A resource may have several informers, with different selectors: one line for all.
            sums: dict[str, float] = {}
            for one in informers:
                resource = one.resource.group_resource
                sums[resource] = sums.get(resource, 0.0) + measure(one)
            return [((resource,), value) for resource, value in sums.items()]

        registry.register(Computed(name, about, _LABELS, compute, kind=kind))

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
