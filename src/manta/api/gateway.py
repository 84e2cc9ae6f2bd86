"""Views of the Gateway API: the traffic of an incremental RayService upgrade."""

from __future__ import annotations

from typing import Any

from manta.api.meta import Condition, Object, View


class Listener(View, frozen=True, kw_only=True):
    name: str = ""
    protocol: str = ""
    port: int = 0


class GatewaySpec(View, frozen=True, kw_only=True):
    gateway_class_name: str = ""
    listeners: tuple[Listener, ...] = ()


class GatewayStatus(View, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class Gateway(Object, frozen=True, kw_only=True):
    spec: GatewaySpec = GatewaySpec()
    status: GatewayStatus = GatewayStatus()


class ParentReference(View, frozen=True, kw_only=True):
    group: str = "gateway.networking.k8s.io"
    kind: str = "Gateway"
    namespace: str = ""
    name: str = ""
    section_name: str = ""
    port: int | None = None


class BackendRef(View, frozen=True, kw_only=True):
    group: str = ""
    kind: str = "Service"
    name: str = ""
    namespace: str = ""
    port: int | None = None
    weight: int = 1


class HTTPRouteRule(View, frozen=True, kw_only=True):
    matches: tuple[dict[str, Any], ...] = ()
    filters: tuple[dict[str, Any], ...] = ()
    backend_refs: tuple[BackendRef, ...] = ()


class HTTPRouteSpec(View, frozen=True, kw_only=True):
    parent_refs: tuple[ParentReference, ...] = ()
    hostnames: tuple[str, ...] = ()
    rules: tuple[HTTPRouteRule, ...] = ()


class RouteParentStatus(View, frozen=True, kw_only=True):
    parent_ref: ParentReference = ParentReference()
    controller_name: str = ""
    conditions: tuple[Condition, ...] = ()


class HTTPRouteStatus(View, frozen=True, kw_only=True):
    parents: tuple[RouteParentStatus, ...] = ()


class HTTPRoute(Object, frozen=True, kw_only=True):
    spec: HTTPRouteSpec = HTTPRouteSpec()
    status: HTTPRouteStatus = HTTPRouteStatus()
