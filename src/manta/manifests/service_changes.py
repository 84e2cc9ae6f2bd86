"""How the Service with a stable name of a RayService or RayJob differs from its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from manta.api.core import Service
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

_PORT_FIELDS: Final = ("name", "port", "protocol", "targetPort", "appProtocol")


def spec_changes(has: Service, spec: Json) -> Json:
    """The merge patch that gives the Service this spec; empty if nothing differs. It does not change whether the
    Service is headless: Kubernetes does not allow that."""
    change: Json = {}
    if dict(has.spec.selector) != spec["selector"]:
        gone = {key: None for key in has.spec.selector if key not in spec["selector"]}
        change["selector"] = {**gone, **spec["selector"]}
    for field, goal in _goals(spec).items():
        attribute, _ = _FOLLOWED[field]
        if not _holds(getattr(has.spec, attribute), goal):
            change[field] = goal
    if [_filled(one) for one in spec["ports"]] != _ports(has) or "type" in change:
        exposed = spec.get("type") in ("NodePort", "LoadBalancer")
        change["ports"] = _with_node_ports(spec["ports"], has) if exposed else spec["ports"]
    return change


def _goals(spec: Json) -> Json:
    """The fields to follow. As for the API server, an empty text is an unset field, and a session has a timeout only
    if it has an affinity."""
    goals = {
        field: default if spec.get(field) in (None, "") else spec[field]
        for field, (_, default) in _FOLLOWED.items()
    }
    if goals["sessionAffinity"] != "ClientIP":
        goals["sessionAffinityConfig"] = None
    return {field: goal for field, goal in goals.items() if goal is not None}


def _holds(has: Any, goal: Any) -> bool:
    """Whether all that the spec gives is there; the API server sets the rest."""
    if isinstance(goal, Mapping):
        known = has if isinstance(has, Mapping) else {}
        return all(one is None or _holds(known.get(name), one) for name, one in goal.items())
    return bool((list(has) if isinstance(has, tuple) else has) == goal)


def _ports(service: Service) -> list[Json]:
    return [_filled(msgspec.to_builtins(one)) for one in service.spec.ports]


def _filled(port: Json) -> Json:
    """The port with the API server's defaults, without the node port that it may choose."""
    given = {name: port[name] for name in _PORT_FIELDS if port.get(name)}
    return {"protocol": "TCP", "targetPort": port.get("port"), **given}


def _with_node_ports(ports: list[Json], has: Service) -> list[Mapping[str, Any]]:
    """A port that stays keeps its node port."""
    known = {port.name: port.node_port for port in has.spec.ports if port.node_port}
    return [
        {**port, "nodePort": known[port["name"]]} if port.get("name") in known else port
        for port in ports
    ]
