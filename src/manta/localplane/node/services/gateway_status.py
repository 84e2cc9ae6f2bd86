"""The status of Gateways and HTTPRoutes: Accepted, Programmed, ResolvedRefs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from manta.api.core import Service
from manta.api.gateway import Gateway, HTTPRoute
from manta.api.meta import Condition, Key
from manta.api.resources import CUSTOM_RESOURCE_DEFINITIONS, GATEWAYS, HTTP_ROUTES, Resource
from manta.api.times import format_time
from manta.api.well_known import GATEWAY_CONTROLLER
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, MantaError, NotFound
from manta.localplane.node.services.routing import is_foreign, is_parent
from manta.runtime.clock import Clock

GROUP = "gateway.networking.k8s.io"
_KINDS = (
    ("GatewayClass", "gatewayclasses", "Cluster", "gc"),
    ("Gateway", "gateways", "Namespaced", "gtw"),
    ("HTTPRoute", "httproutes", "Namespaced", None),
)


def definitions() -> list[dict[str, Any]]:
    return [_definition(*kind) for kind in _KINDS]


def _definition(kind: str, plural: str, scope: str, short: str | None) -> dict[str, Any]:
    open_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": open_object, "status": open_object}}
    names: dict[str, Any] = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "categories": ["gateway-api"],
    }
    if short:
        names["shortNames"] = [short]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "annotations": {
                "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api"
            },
        },
        "spec": {"group": GROUP, "scope": scope, "names": names, "versions": [version]},
    }


def gateway_class() -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "GatewayClass",
        "metadata": {"name": "manta"},
        "spec": {
            "controllerName": GATEWAY_CONTROLLER,
            "description": "the HTTP proxy of this plane",
        },
    }


log = logging.getLogger(__name__)

_CLASSES = Resource(GROUP, "v1", "gatewayclasses", "GatewayClass", namespaced=False)
_TRIES = 100


async def install_types(client: Client) -> None:
    """Define the kinds of the Gateway API, unless they are defined already."""
    for definition in definitions():
        try:
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition)
        except AlreadyExists:
            log.debug("%s is served already", definition["metadata"]["name"])
    for _ in range(_TRIES):
        try:
            await client.create(_CLASSES, "", gateway_class())
        except AlreadyExists:
            return
        except NotFound:
            await asyncio.sleep(0.1)  # the API server does not serve the new kind yet
        else:
            return


def gateway_status(gateway: Gateway, address: str, stamp: str) -> dict[str, Any]:
    """The status of a Gateway; unchanged conditions keep their transition time. Pure."""
    before = gateway.status.conditions
    generation = gateway.metadata.generation
    listeners = [
        {
            "name": listener.name,
            "supportedKinds": [{"group": GROUP, "kind": "HTTPRoute"}],
            "attachedRoutes": 0,
            "conditions": [],
        }
        for listener in gateway.spec.listeners
    ]
    return {
        "addresses": [{"type": "IPAddress", "value": address}],
        "conditions": [
            _condition("Accepted", "Accepted", before, generation, stamp),
            _condition("Programmed", "Programmed", before, generation, stamp),
        ],
        "listeners": listeners,
    }


def route_status(
    route: HTTPRoute, gateways: Sequence[Gateway], services: frozenset[Key], stamp: str
) -> dict[str, Any]:
    """The status of a route: one entry for each of our Gateways that it names. Pure."""
    return {"parents": [*_parents(route, gateways, services, stamp)]}


def _parents(
    route: HTTPRoute, gateways: Sequence[Gateway], services: frozenset[Key], stamp: str
) -> Iterator[dict[str, Any]]:
    before = next(
        (
            one.conditions
            for one in route.status.parents
            if one.controller_name == GATEWAY_CONTROLLER
        ),
        (),
    )
    foreign = _foreign_backend(route)
    missing = _missing_backend(route, services)
    generation = route.metadata.generation
    resolved = _condition("ResolvedRefs", "ResolvedRefs", before, generation, stamp)
    if foreign is not None:
        message = (
            f"Service {foreign} is in another namespace, and ReferenceGrants are not served here"
        )
        resolved = _condition("ResolvedRefs", "RefNotPermitted", before, generation, stamp, message)
    elif missing is not None:
        message = f"Service {missing} not found"
        resolved = _condition("ResolvedRefs", "BackendNotFound", before, generation, stamp, message)
    for gateway in gateways:
        if is_parent(gateway, route):
            yield {
                "controllerName": GATEWAY_CONTROLLER,
                "parentRef": {
                    "group": GROUP,
                    "kind": "Gateway",
                    "namespace": gateway.metadata.namespace,
                    "name": gateway.metadata.name,
                },
                "conditions": [
                    _condition("Accepted", "Accepted", before, generation, stamp),
                    resolved,
                ],
            }


def _foreign_backend(route: HTTPRoute) -> Key | None:
    for rule in route.spec.rules:
        for backend in rule.backend_refs:
            if is_foreign(route, backend):
                return Key(backend.namespace, backend.name)
    return None


def _missing_backend(route: HTTPRoute, services: frozenset[Key]) -> Key | None:
    for rule in route.spec.rules:
        for backend in rule.backend_refs:
            key = Key(backend.namespace or route.metadata.namespace, backend.name)
            if key not in services:
                return key
    return None


def _condition(
    kind: str,
    reason: str,
    before: Sequence[Condition],
    generation: int,
    stamp: str,
    message: str = "",
) -> dict[str, Any]:
    status = "False" if message else "True"
    known = next((one for one in before if one.type == kind and one.status == status), None)
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": known.last_transition_time if known else stamp,
    }


class StatusWriter:
    """Writes a status if it differs from the last one written."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._written: dict[tuple[str, Key], dict[str, Any]] = {}

    async def write(
        self,
        gateways: Sequence[tuple[Gateway, str]],
        routes: Iterable[HTTPRoute],
        services: Iterable[Service],
    ) -> None:
        stamp = format_time(self._clock.now())
        known = frozenset(service.metadata.key for service in services)
        for gateway, address in gateways:
            status = gateway_status(gateway, address, stamp)
            await self._patch(GATEWAYS, gateway.metadata.key, status)
        ours = [gateway for gateway, _ in gateways]
        for route in routes:
            if any(is_parent(gateway, route) for gateway in ours):
                status = route_status(route, ours, known, stamp)
                await self._patch(HTTP_ROUTES, route.metadata.key, status)

    async def _patch(self, resource: Resource, key: Key, status: dict[str, Any]) -> None:
        if self._written.get((resource.plural, key)) == status:
            return
        try:
            await self._client.patch(resource, key, {"status": status}, subresource="status")
        except MantaError as error:
            log.info("status of %s %s not written: %s", resource.kind, key, error)
            return
        self._written[resource.plural, key] = status
