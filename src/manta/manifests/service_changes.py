"""How the Service with a stable name of a RayService or RayJob differs from its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from manta.api.core import Service, ServicePort
from manta.manifests.containers import Json

_FOLLOWED: Final = {
    "type": ("type", "ClusterIP"),
    "sessionAffinity": ("session_affinity", "None"),
    "sessionAffinityConfig": ("session_affinity_config", None),
    "externalTrafficPolicy": ("external_traffic_policy", None),
    "internalTrafficPolicy": ("internal_traffic_policy", None),
    "loadBalancerSourceRanges": ("load_balancer_source_ranges", None),
    "externalIPs": ("external_ips", None),
    "publishNotReadyAddresses": ("publish_not_ready_addresses", None),
}
"""Fields that follow the manifest: the attribute, and the value of a field that it no longer sets. None: it stays,
because the API server or a cloud provider may have set it."""


def spec_changes(has: Service, spec: Json) -> Json:
    """The merge patch that gives the Service this spec; empty if nothing differs. It does not change whether the
    Service is headless: Kubernetes does not allow that."""
    change: Json = {}
    if dict(has.spec.selector) != spec["selector"]:
        gone = {key: None for key in has.spec.selector if key not in spec["selector"]}
        change["selector"] = {**gone, **spec["selector"]}
    for field, (attribute, default) in _FOLLOWED.items():
        goal = spec.get(field, default)
        if goal is not None and _plain(getattr(has.spec, attribute)) != _plain(goal):
            change[field] = goal
    if _typed(spec["ports"]) != _without_node_ports(has.spec.ports) or "type" in change:
        exposed = spec.get("type") in ("NodePort", "LoadBalancer")
        change["ports"] = _with_node_ports(spec["ports"], has) if exposed else spec["ports"]
    return change


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _typed(ports: list[Json]) -> tuple[ServicePort, ...]:
    """With the API server's default: the target port is the port."""
    filled = [{"targetPort": port["port"], **port} for port in ports]
    return _without_node_ports(msgspec.convert(filled, tuple[ServicePort, ...]))


def _without_node_ports(ports: tuple[ServicePort, ...]) -> tuple[ServicePort, ...]:
    return tuple(msgspec.structs.replace(port, node_port=0) for port in ports)


def _with_node_ports(ports: list[Json], has: Service) -> list[Mapping[str, Any]]:
    """A port that stays keeps its node port."""
    known = {port.name: port.node_port for port in has.spec.ports if port.node_port}
    return [
        {**port, "nodePort": known[port["name"]]} if port.get("name") in known else port
        for port in ports
    ]
