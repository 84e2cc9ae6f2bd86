"""Views of the networking group. Rules stay raw: they are compared and passed on, not read."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.meta import ObjectMeta, View


class IngressSpec(View, frozen=True, kw_only=True):
    ingress_class_name: str | None = None
    rules: tuple[dict[str, Any], ...] = ()
    tls: tuple[dict[str, Any], ...] = ()


class Ingress(View, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: IngressSpec = IngressSpec()


class RouteSpec(View, frozen=True, kw_only=True):
    """Of OpenShift's Routes, what we say; host and tls are the router's and the user's."""

    to: dict[str, Any] = msgspec.field(default_factory=dict)
    port: dict[str, Any] = msgspec.field(default_factory=dict)


class Route(View, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: RouteSpec = RouteSpec()


class NetworkPolicySpec(View, frozen=True, kw_only=True):
    pod_selector: dict[str, Any] = msgspec.field(default_factory=dict)
    policy_types: tuple[str, ...] = ()
    ingress: tuple[dict[str, Any], ...] = ()
    egress: tuple[dict[str, Any], ...] = ()


class NetworkPolicy(View, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NetworkPolicySpec = NetworkPolicySpec()
