"""The older Endpoints object, for clients that still read it. Pure."""

from __future__ import annotations

from typing import Any

from manta.api.well_known import LABEL_ENDPOINTS_MANAGED_BY, LABEL_HEADLESS_SERVICE
from manta.localplane.builtin.endpoints.addresses import hostname, is_addressable, target_port
from manta.localplane.builtin.endpoints.snapshot import ServiceSnapshot
from manta.localplane.builtin.views import Pod, Service

LARGEST = 1000
"""Kubernetes cuts here too."""


def subsets(snapshot: ServiceSnapshot, service: Service) -> list[dict[str, Any]]:
    """Addresses grouped by their ports; unlike slices, Pods on unknown nodes are listed."""
    groups: dict[tuple[tuple[str, int, str], ...], dict[str, Any]] = {}
    eager = service.spec.publish_not_ready_addresses
    listed = [
        one for one in snapshot.pods if is_addressable(one) and (eager or not one.is_deleting)
    ]
    for pod in listed[:LARGEST]:
        ports = tuple(
            (port.name, number, port.protocol)
            for port in service.spec.ports or ()
            if (number := target_port(port, pod)) is not None
        )
        ready = pod.is_ready or eager
        group = groups.setdefault(ports, {})
        kind = "addresses" if ready else "notReadyAddresses"
        group.setdefault(kind, []).append(_address(service, pod))
    return [{**group, **_ports(ports)} for ports, group in groups.items()]


def labels(service: Service) -> dict[str, str]:
    own = {LABEL_ENDPOINTS_MANAGED_BY: "endpoint-controller"}
    return {
        **service.metadata.labels,
        **own,
        **({LABEL_HEADLESS_SERVICE: ""} if service.is_headless else {}),
    }


def _address(service: Service, pod: Pod) -> dict[str, Any]:
    meta = pod.metadata
    address: dict[str, Any] = {
        "ip": pod.status.pod_ip,
        "targetRef": {
            "kind": "Pod",
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
        },
    }
    if pod.spec.node_name:
        address["nodeName"] = pod.spec.node_name
    if name := hostname(service, pod):
        address["hostname"] = name
    return address


def _ports(ports: tuple[tuple[str, int, str], ...]) -> dict[str, Any]:
    listed = [
        {**({"name": name} if name else {}), "port": number, "protocol": protocol}
        for name, number, protocol in ports
    ]
    return {"ports": listed} if listed else {}
