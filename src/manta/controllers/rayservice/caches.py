"""The caches that the RayService controller reads, and their indexes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from manta.api.core import Pod, Service
from manta.api.discovery import EndpointSlice
from manta.api.gateway import Gateway, HTTPRoute
from manta.api.meta import Key, Object
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_SERVICES
from manta.api.ray.service import RayServiceStatuses
from manta.api.well_known import LABEL_SERVICE_NAME
from manta.runtime.cache import Named
from manta.runtime.informer import Informer

BY_SERVICE: Final = "RayService that controls it"
BY_SERVING_CLUSTER: Final = "cluster of a RayService"
BY_SERVICE_NAME: Final = "Service that it belongs to"

SERVE_SLICES: Final = names.LABEL_SERVE
"""EndpointSlices have the labels of their Service. All serve Services have this one."""


class CachedRayService(Object, frozen=True, kw_only=True):
    """A RayService with its spec as the user wrote it, so that unknown fields reach its clusters."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: RayServiceStatuses = RayServiceStatuses()


@dataclass(frozen=True, slots=True)
class Caches:
    ray_services: Informer[CachedRayService]
    clusters: Informer[RayCluster]
    pods: Informer[Pod]
    services: Informer[Service]
    slices: Informer[EndpointSlice]
    gateways: Informer[Gateway] | None = None
    """Only with incremental upgrades. The first RayService that needs it starts the watch."""
    routes: Informer[HTTPRoute] | None = None


def by_service(one: Named) -> tuple[str, ...]:
    owner = one.metadata.controller
    return (owner.uid,) if owner is not None and owner.kind == RAY_SERVICES.kind else ()


def by_serving_cluster(pod: Pod) -> tuple[str, ...]:
    labels = pod.metadata.labels
    if names.LABEL_SERVE not in labels:
        return ()
    return (str(Key(pod.metadata.namespace, labels.get(names.LABEL_CLUSTER, ""))),)


def by_service_name(one: EndpointSlice) -> tuple[str, ...]:
    name = one.metadata.labels.get(LABEL_SERVICE_NAME)
    return (str(Key(one.metadata.namespace, name)),) if name else ()


INDEXES: Final[Mapping[str, Callable[[Any], tuple[str, ...]]]] = {
    BY_SERVICE: by_service,
    BY_SERVING_CLUSTER: by_serving_cluster,
    BY_SERVICE_NAME: by_service_name,
}
