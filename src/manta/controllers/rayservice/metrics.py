"""KubeRay's metrics of RayServices, computed from the cache at each scrape.

So a restart loses nothing, and a deleted service leaves no series behind (C38).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from manta.api.conditions import is_true
from manta.api.ray.service import ServiceConditionType
from manta.controllers.rayservice.caches import CachedRayService
from manta.runtime.informer import Informer
from manta.runtime.metrics import Computed, Registry

Row = tuple[tuple[str, ...], float]
Services = tuple[CachedRayService, ...]
_WHO = ("name", "namespace", "uid")


def register(registry: Registry, services: Informer[CachedRayService]) -> None:
    families: tuple[tuple[str, str, tuple[str, ...], Callable[[Services], Iterator[Row]]], ...] = (
        ("kuberay_service_info", "Metadata of RayServices.", _WHO, infos),
        (
            "kuberay_service_condition_ready",
            "Whether a RayService is ready.",
            (*_WHO, "condition"),
            lambda all_: condition_rows(all_, ServiceConditionType.READY),
        ),
        (
            "kuberay_service_condition_upgrade_in_progress",
            "Whether a RayService is being upgraded.",
            (*_WHO, "condition"),
            lambda all_: condition_rows(all_, ServiceConditionType.UPGRADE_IN_PROGRESS),
        ),
    )
    for name, help_, labels, rows in families:
        registry.register(Computed(name, help_, labels, _reader(services, rows)))


def _reader(
    services: Informer[CachedRayService], rows: Callable[[Services], Iterator[Row]]
) -> Callable[[], Iterator[Row]]:
    return lambda: rows(services.all())


def infos(services: Services) -> Iterator[Row]:
    for service in services:
        yield _who(service), 1.0


def condition_rows(services: Services, type_: ServiceConditionType) -> Iterator[Row]:
    for service in services:
        is_so = is_true(service.status.conditions, type_)
        yield (*_who(service), "true" if is_so else "false"), 1.0


def _who(service: CachedRayService) -> tuple[str, str, str]:
    meta = service.metadata
    return meta.name, meta.namespace, meta.uid
