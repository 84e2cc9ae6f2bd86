"""Gateway and HTTPRoute: created if missing, patched if they differ."""

from __future__ import annotations

import msgspec

from manta.api.gateway import GatewaySpec, HTTPRouteSpec, ParentReference
from manta.api.resources import GATEWAYS, HTTP_ROUTES
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot
from manta.manifests.gateway import Backend, build_gateway, build_route
from manta.manifests.serve_services import cluster_serve_service_name, serve_port
from manta.reconcile.actions import Create, Delete, Patch
from manta.reconcile.plan import NOTHING, Plan, do


def plan_gateway(snapshot: ServiceSnapshot) -> Plan:
    if snapshot.gateway_error:
        return NOTHING
    wanted = build_gateway(snapshot.service, snapshot.gateway_class)
    if snapshot.gateway is None:
        return do(Create(GATEWAYS, wanted, Cause.CREATE_GATEWAY), independent=True)
    if snapshot.gateway.spec == msgspec.convert(wanted["spec"], GatewaySpec):
        return NOTHING
    meta, body = snapshot.gateway.metadata, {"spec": wanted["spec"]}
    why = "class or listener changed"
    patch = Patch(GATEWAYS, meta.key, body, Cause.UPDATE_GATEWAY, why, uid=meta.uid)
    return do(patch, independent=True)


def plan_route(snapshot: ServiceSnapshot, active: int, pending: int | None) -> Plan:
    """Route all traffic by these weights, in percent. None: the pending cluster has no Service yet."""
    if snapshot.gateway_error or snapshot.active is None:
        return NOTHING
    backends = [_backend(snapshot.active, active)]
    if pending is not None and snapshot.pending is not None:
        backends.append(_backend(snapshot.pending, pending))
    wanted = build_route(snapshot.service, backends)
    if snapshot.route is None:
        return do(Create(HTTP_ROUTES, wanted, Cause.CREATE_ROUTE), independent=True)
    if _essence(snapshot, snapshot.route.spec) == _essence(
        snapshot, msgspec.convert(wanted["spec"], HTTPRouteSpec)
    ):
        return NOTHING
    shares = ", ".join(f"{one.weight} % to {one.service}" for one in backends)
    meta, body = snapshot.route.metadata, {"spec": wanted["spec"]}
    patch = Patch(HTTP_ROUTES, meta.key, body, Cause.UPDATE_ROUTE, shares, uid=meta.uid)
    return do(patch, independent=True)


def _backend(view: ClusterView, weight: int) -> Backend:
    port = serve_port(view.cluster, view.head_pod)
    return Backend(cluster_serve_service_name(view.name), port, weight)


def _essence(snapshot: ServiceSnapshot, spec: HTTPRouteSpec) -> object:
    """The fields that we set, without defaults of the API server."""
    home = snapshot.service.metadata.namespace
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


def delete_gateway_objects(snapshot: ServiceSnapshot, why: str) -> tuple[Delete, ...]:
    """Delete both, the HTTPRoute first: it must not refer to a missing Gateway."""
    actions: list[Delete] = []
    if snapshot.route is not None and snapshot.route.metadata.deletion_timestamp is None:
        meta = snapshot.route.metadata
        actions.append(Delete(HTTP_ROUTES, meta.key, meta.uid, Cause.DELETE_ROUTE, why))
    if snapshot.gateway is not None and snapshot.gateway.metadata.deletion_timestamp is None:
        meta = snapshot.gateway.metadata
        actions.append(Delete(GATEWAYS, meta.key, meta.uid, Cause.DELETE_GATEWAY, why))
    return tuple(actions)
