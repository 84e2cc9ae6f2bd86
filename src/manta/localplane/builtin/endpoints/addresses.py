"""The endpoints of a Service: Pods with an address, on a node that exists. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from manta.api.core import ObjectReference
from manta.api.discovery import EndpointConditions
from manta.api.well_known import LABEL_ZONE
from manta.localplane.builtin.endpoints.snapshot import ServiceSnapshot
from manta.localplane.builtin.views import Endpoint, EndpointPort, Pod, Service, ServicePort

Ports = tuple[EndpointPort, ...]


def desired(snapshot: ServiceSnapshot, service: Service) -> dict[Ports, dict[str, Endpoint]]:
    """Endpoints by Pod UID, grouped by the ports that they share.

    A named target port may mean another number in every Pod, hence the groups.
    """
    groups: dict[Ports, dict[str, Endpoint]] = {}
    for pod in snapshot.pods:
        if is_addressable(pod) and pod.spec.node_name in snapshot.nodes:
            ports = tuple(_ports(service, pod))
            groups.setdefault(ports, {})[pod.metadata.uid] = _endpoint(snapshot, service, pod)
    return groups


def is_addressable(pod: Pod) -> bool:
    return bool(pod.status.pod_ip) and not pod.is_terminal


def _endpoint(snapshot: ServiceSnapshot, service: Service, pod: Pod) -> Endpoint:
    serving, leaving = pod.is_ready, pod.is_deleting
    ready = service.spec.publish_not_ready_addresses or (serving and not leaving)
    meta = pod.metadata
    node = snapshot.nodes[pod.spec.node_name]
    return Endpoint(
        addresses=(pod.status.pod_ip,),
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=leaving),
        hostname=hostname(service, pod),
        node_name=pod.spec.node_name,
        target_ref=ObjectReference(
            kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid
        ),
        zone=node.metadata.labels.get(LABEL_ZONE),
    )


def hostname(service: Service, pod: Pod) -> str | None:
    """Pods that name this Service as their subdomain get a DNS name of their own."""
    named = pod.spec.hostname and pod.spec.subdomain == service.metadata.name
    return pod.spec.hostname if named else None


def _ports(service: Service, pod: Pod) -> Iterator[EndpointPort]:
    for port in service.spec.ports or ():
        number = target_port(port, pod)
        if number is not None:
            yield EndpointPort(
                name=port.name, port=number, protocol=port.protocol, app_protocol=port.app_protocol
            )


def target_port(port: ServicePort, pod: Pod) -> int | None:
    """The number that a Service port means in this Pod; None when the Pod has no such name."""
    target = port.target_port
    if not isinstance(target, str):
        return target or port.port
    for container in (*pod.spec.containers, *(pod.spec.init_containers or ())):
        for one in container.ports or ():
            if one.name == target and one.protocol == port.protocol:
                return one.container_port
    return None
