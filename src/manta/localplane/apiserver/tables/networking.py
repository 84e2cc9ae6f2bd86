"""Rows of Services, EndpointSlices, Ingresses and NetworkPolicies."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from manta.localplane.apiserver.tables.columns import object_age
from manta.localplane.apiserver.tables.workloads import pairs, selector_text

Object = dict[str, Any]


def service_cells(service: Object, now: datetime) -> list[Any]:
    spec = service.get("spec") or {}
    return [
        service["metadata"]["name"],
        spec.get("type", "ClusterIP"),
        spec.get("clusterIP") or "<none>",
        _external(service, spec),
        ",".join(_port(port) for port in spec.get("ports") or ()) or "<none>",
        object_age(service, now),
        pairs(spec.get("selector") or {}),
    ]


def _external(service: Object, spec: Object) -> str:
    addresses = list(spec.get("externalIPs") or ())
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName") or "<none>")
    if spec.get("type") == "LoadBalancer":
        points = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
        given = [point.get("ip") or point.get("hostname") or "" for point in points]
        return ",".join(given + addresses) or "<pending>"
    return ",".join(addresses) or "<none>"


def _port(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}"


def endpoint_slice_cells(slice_: Object, now: datetime) -> list[Any]:
    ports = [
        str(port["port"]) if port.get("port") is not None else "*"
        for port in slice_.get("ports") or ()
    ]
    addresses = [
        address for one in slice_.get("endpoints") or () for address in one.get("addresses") or ()
    ]
    return [
        slice_["metadata"]["name"],
        slice_.get("addressType", ""),
        _some(ports) or "<unset>",
        _some(addresses) or "<unset>",
        object_age(slice_, now),
    ]


def endpoints_cells(endpoints: Object, now: datetime) -> list[Any]:
    shown = []
    for subset in endpoints.get("subsets") or ():
        ports = [port.get("port") for port in subset.get("ports") or ()]
        for address in subset.get("addresses") or ():
            shown += [f"{address.get('ip')}:{port}" for port in ports] or [str(address.get("ip"))]
    return [endpoints["metadata"]["name"], _some(shown) or "<none>", object_age(endpoints, now)]


def _some(values: list[str]) -> str:
    """The first three, and the number of the others."""
    more = f" + {len(values) - 3} more..." if len(values) > 3 else ""
    return ",".join(values[:3]) + more


def ingress_class_cells(one: Object, now: datetime) -> list[Any]:
    spec = one.get("spec") or {}
    below = spec.get("parameters")
    shown = "<none>"
    if below:
        kind = f"{below['kind']}.{below['apiGroup']}" if below.get("apiGroup") else below["kind"]
        shown = f"{kind}/{below['name']}"
    return [one["metadata"]["name"], spec.get("controller", ""), shown, object_age(one, now)]


def ingress_cells(ingress: Object, now: datetime) -> list[Any]:
    spec = ingress.get("spec") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    points = ((ingress.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return [
        ingress["metadata"]["name"],
        spec.get("ingressClassName") or "<none>",
        _some(hosts) or "*",
        ",".join(point.get("ip") or point.get("hostname") or "" for point in points),
        "80, 443" if spec.get("tls") else "80",
        object_age(ingress, now),
    ]


def network_policy_cells(policy: Object, now: datetime) -> list[Any]:
    selector = (policy.get("spec") or {}).get("podSelector")
    return [policy["metadata"]["name"], selector_text(selector), object_age(policy, now)]
