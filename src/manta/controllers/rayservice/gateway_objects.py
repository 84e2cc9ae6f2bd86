"""Reads Gateway and HTTPRoute. The Gateway API may not be installed: it is watched once it is needed."""

from __future__ import annotations

from typing import Any, NamedTuple

from manta.api.gateway import Gateway, HTTPRoute
from manta.api.meta import Key
from manta.api.resources import GATEWAYS, HTTP_ROUTES
from manta.controllers.rayservice.caches import Caches
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.kube.client import Client
from manta.kube.errors import ApiError, Forbidden, NotFound
from manta.manifests.gateway import gateway_name, route_name
from manta.runtime.informer import Informer


class GatewayObjects(NamedTuple):
    gateway: Gateway | None = None
    route: HTTPRoute | None = None
    error: str = ""
    """Why they could not be read."""


async def read_gateway_objects(
    caches: Caches, client: Client, snapshot: ServiceSnapshot
) -> GatewayObjects:
    """Read the objects from the caches once they are filled, and before that from the API server."""
    was_incremental = snapshot.was_split and not snapshot.is_canary
    if not (snapshot.is_incremental or snapshot.gateway_class or was_incremental):
        return GatewayObjects()
    service, namespace = snapshot.service, snapshot.service.metadata.namespace
    gateway, route = Key(namespace, gateway_name(service)), Key(namespace, route_name(service))
    if caches.gateways is not None and caches.routes is not None:
        caches.gateways.activate()
        caches.routes.activate()
        if _is_current(caches.gateways) and _is_current(caches.routes):
            return GatewayObjects(caches.gateways.get(gateway), caches.routes.get(route))
    try:
        return GatewayObjects(
            await _find(client, GATEWAYS, gateway, Gateway),
            await _find(client, HTTP_ROUTES, route, HTTPRoute),
        )
    except (Forbidden, NotFound) as error:
        return GatewayObjects(error=_message(error))


async def _find(client: Client, resource: Any, key: Key, into: Any) -> Any:
    """None if there is no such object. Raises NotFound if the API server has no such resource."""
    try:
        return await client.get(resource, key, into=into)
    except NotFound as error:
        if error.of_type:
            raise
        return None


def _is_current(informer: Informer[Any]) -> bool:
    """False before the cache is filled, and after its CRD was uninstalled."""
    return informer.has_synced and informer.watch_error is None


def _message(error: ApiError) -> str:
    if isinstance(error, NotFound):
        return (
            "the Gateway API (gateway.networking.k8s.io/v1) is not installed in this cluster:"
            " install it, or use the upgrade type NewCluster"
        )
    return f"cannot read Gateway and HTTPRoute: {error}"
