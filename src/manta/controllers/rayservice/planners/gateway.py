"""Gateway and HTTPRoute as they should be; written only when they differ."""

from __future__ import annotations

import msgspec

from manta.api.gateway import GatewaySpec, HTTPRouteSpec, ParentReference
from manta.api.resources import GATEWAYS, HTTP_ROUTES
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.snapshot import ClusterSight, ServiceSnapshot
from manta.manifests.gateway import Backend, build_gateway, build_route
from manta.manifests.serve_services import cluster_serve_service_name, serve_port
from manta.reconcile.actions import Create, Delete, Patch
from manta.reconcile.plan import NOTHING, Plan, do


def plan_gateway(seen: ServiceSnapshot) -> Plan:
    if seen.gateway_trouble:
        return NOTHING
    wanted = build_gateway(seen.service, seen.upgrade_options.gateway_class_name)
    if seen.gateway is None:
        return do(Create(GATEWAYS, wanted, Cause.CREATE_GATEWAY), independent=True)
    if seen.gateway.spec == msgspec.convert(wanted["spec"], GatewaySpec):
        return NOTHING
    meta, body = seen.gateway.metadata, {"spec": wanted["spec"]}
    why = "class or listener changed"
    patch = Patch(GATEWAYS, meta.key, body, Cause.UPDATE_GATEWAY, why, uid=meta.uid)
    return do(patch, independent=True)


def plan_route(seen: ServiceSnapshot, active: int, pending: int | None) -> Plan:
    """All traffic by these weights; a pending cluster is there as soon as it has a Service."""
    if seen.gateway_trouble or seen.active is None:
        return NOTHING
    backends = [_backend(seen.active, active)]
    if pending is not None and seen.pending is not None:
        backends.append(_backend(seen.pending, pending))
    wanted = build_route(seen.service, backends)
    if seen.route is None:
        return do(Create(HTTP_ROUTES, wanted, Cause.CREATE_ROUTE), independent=True)
    if _essence(seen, seen.route.spec) == _essence(
        seen, msgspec.convert(wanted["spec"], HTTPRouteSpec)
    ):
        return NOTHING
    shares = ", ".join(f"{one.weight} % to {one.service}" for one in backends)
    meta, body = seen.route.metadata, {"spec": wanted["spec"]}
    patch = Patch(HTTP_ROUTES, meta.key, body, Cause.UPDATE_ROUTE, shares, uid=meta.uid)
    return do(patch, independent=True)


def _backend(sight: ClusterSight, weight: int) -> Backend:
    return Backend(cluster_serve_service_name(sight.name), serve_port(sight.cluster), weight)


def _essence(seen: ServiceSnapshot, spec: HTTPRouteSpec) -> object:
    """What we set. What a server fills in, or others add to the metadata, is not ours."""
    home = seen.service.metadata.namespace
    rules = [
        (
            rule.matches,
            rule.filters,
            [(ref.name, ref.namespace or home, ref.port, ref.weight) for ref in rule.backend_refs],
        )
        for rule in spec.rules
    ]
    return [_parent(one, home) for one in spec.parent_refs], rules


def _parent(one: ParentReference, home: str) -> tuple[str, str]:
    return one.name, one.namespace or home


def closing(seen: ServiceSnapshot, why: str) -> tuple[Delete, ...]:
    """Both away: the route first, so that it never points into nothing."""
    actions: list[Delete] = []
    if seen.route is not None and seen.route.metadata.deletion_timestamp is None:
        meta = seen.route.metadata
        actions.append(Delete(HTTP_ROUTES, meta.key, meta.uid, Cause.DELETE_ROUTE, why))
    if seen.gateway is not None and seen.gateway.metadata.deletion_timestamp is None:
        meta = seen.gateway.metadata
        actions.append(Delete(GATEWAYS, meta.key, meta.uid, Cause.DELETE_GATEWAY, why))
    return tuple(actions)
