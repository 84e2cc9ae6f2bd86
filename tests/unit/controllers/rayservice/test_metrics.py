"""KubeRay's metrics of RayServices, computed from the cache."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from manta.controllers.rayservice.caches import CachedRayService
from manta.controllers.rayservice.metrics import register
from manta.runtime.informer import Informer
from manta.runtime.metrics import Registry


class Cached:
    """As much of an informer as a scrape asks for."""

    def __init__(self, *services: CachedRayService) -> None:
        self.services = services

    def all(self) -> tuple[CachedRayService, ...]:
        return self.services


def cached(name: str, **conditions: str) -> CachedRayService:
    meta = {"name": name, "namespace": "default", "uid": f"{name}-uid"}
    said = [{"type": type_, "status": status} for type_, status in conditions.items()]
    document: dict[str, Any] = {"metadata": meta, "status": {"conditions": said}}
    return msgspec.convert(document, CachedRayService)


def test_a_scrape_tells_kuberays_names_labels_and_types() -> None:
    registry = Registry()
    services = Cached(cached("a", Ready="True", UpgradeInProgress="False"), cached("b"))
    register(registry, cast("Informer[CachedRayService]", services))
    lines = registry.render().splitlines()
    a = 'name="a",namespace="default",uid="a-uid"} 1.0'
    b = 'name="b",namespace="default",uid="b-uid"} 1.0'
    assert [one for one in lines if "kuberay_" in one and not one.startswith("# HELP")] == [
        "# TYPE kuberay_service_info gauge",
        f"kuberay_service_info{{{a}",
        f"kuberay_service_info{{{b}",
        "# TYPE kuberay_service_condition_ready gauge",
        f'kuberay_service_condition_ready{{condition="true",{a}',
        f'kuberay_service_condition_ready{{condition="false",{b}',
        "# TYPE kuberay_service_condition_upgrade_in_progress gauge",
        f'kuberay_service_condition_upgrade_in_progress{{condition="false",{a}',
        f'kuberay_service_condition_upgrade_in_progress{{condition="false",{b}',
    ]
