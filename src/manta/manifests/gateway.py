"""The Gateway and HTTPRoute of an incremental upgrade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from manta.api.ray import names
from manta.api.ray.service import RayService
from manta.api.resources import GATEWAYS, HTTP_ROUTES
from manta.manifests.containers import Json
from manta.manifests.service_cluster import origin_labels, service_reference

LISTENER = "http"


@dataclass(frozen=True, slots=True)
class Backend:
    """One cluster's serve Service, and its weight in percent."""

    service: str
    port: int
    weight: int


def gateway_name(service: RayService) -> str:
    return f"{service.metadata.name}-gateway"


def route_name(service: RayService) -> str:
    return f"{service.metadata.name}-httproute"


def build_gateway(service: RayService, gateway_class: str) -> Json:
    listener = {"name": LISTENER, "protocol": "HTTP", "port": names.PORT_GATEWAY}
    return {
        "apiVersion": GATEWAYS.api_version,
        "kind": GATEWAYS.kind,
        "metadata": _meta(service, gateway_name(service)),
        "spec": {"gatewayClassName": gateway_class, "listeners": [listener]},
    }


def build_route(service: RayService, backends: Sequence[Backend]) -> Json:
    """The HTTPRoute: all paths, split by weight; the older cluster is the first backend."""
    parent = {"name": gateway_name(service), "namespace": service.metadata.namespace}
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
        "backendRefs": [
            {"name": one.service, "port": one.port, "weight": one.weight} for one in backends
        ],
    }
    return {
        "apiVersion": HTTP_ROUTES.api_version,
        "kind": HTTP_ROUTES.kind,
        "metadata": _meta(service, route_name(service)),
        "spec": {"parentRefs": [parent], "rules": [rule]},
    }


def _meta(service: RayService, name: str) -> Json:
    return {
        "name": name,
        "namespace": service.metadata.namespace,
        "labels": origin_labels(service),
        "ownerReferences": [service_reference(service)],
    }
