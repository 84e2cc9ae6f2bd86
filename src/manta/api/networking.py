"""Views of the networking group. Rules stay raw JSON: they are only compared and copied."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.meta import Object, View


class IngressSpec(View, frozen=True, kw_only=True):
    ingress_class_name: str | None = None
    rules: tuple[dict[str, Any], ...] = ()
    tls: tuple[dict[str, Any], ...] = ()


class Ingress(Object, frozen=True, kw_only=True):
    spec: IngressSpec = IngressSpec()


class RouteSpec(View, frozen=True, kw_only=True):
    """The fields of an OpenShift Route that the operator sets; the router and the user set host and tls."""

    to: dict[str, Any] = msgspec.field(default_factory=dict)
    port: dict[str, Any] = msgspec.field(default_factory=dict)


class Route(Object, frozen=True, kw_only=True):
    spec: RouteSpec = RouteSpec()


class NetworkPolicySpec(View, frozen=True, kw_only=True):
    pod_selector: dict[str, Any] = msgspec.field(default_factory=dict)
    policy_types: tuple[str, ...] = ()
    ingress: tuple[dict[str, Any], ...] = ()
    egress: tuple[dict[str, Any], ...] = ()


class NetworkPolicy(Object, frozen=True, kw_only=True):
    spec: NetworkPolicySpec = NetworkPolicySpec()
