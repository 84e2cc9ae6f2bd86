"""Which Pod, container or port a streaming request means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manta.localplane.apiserver.core import Core
from manta.localplane.apiserver.status_errors import (
    Refusal,
    bad_request,
    not_found,
)
from manta.localplane.store.objects import key_of

Object = dict[str, Any]


def find_pod(core: Core, namespace: str, name: str) -> Object:
    record = core.store.get("pods", key_of(namespace, name))
    if record is None:
        raise not_found("pods", "", name)
    return record.decode()


def choose_container(pod: Object, asked: str) -> str:
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    containers = [one["name"] for one in spec.get("containers") or ()]
    initial = [one["name"] for one in spec.get("initContainers") or ()]
    ephemeral = [one["name"] for one in spec.get("ephemeralContainers") or ()]
    if asked:
        if asked not in (*containers, *initial, *ephemeral):
            raise bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    if len(containers) == 1:
        return str(containers[0])
    more = f" or one of the init containers: [{' '.join(initial)}]" if initial else ""
    raise bad_request(
        f"a container name must be specified for pod {name}, choose one of: "
        f"[{' '.join(containers)}]{more}"
    )


@dataclass(frozen=True, slots=True)
class Address:
    """A port of a Pod that a proxy request ends at."""

    namespace: str
    pod: str
    port: int


def pod_address(core: Core, namespace: str, text: str) -> Address:
    """`NAME`, `NAME:PORT` or `http:NAME:PORT`; without a port the first one of the Pod."""
    name, port = _split(text)
    pod = find_pod(core, namespace, name)
    if port:
        return Address(namespace, name, _pod_port(pod, port))
    for container in (pod.get("spec") or {}).get("containers") or ():
        for one in container.get("ports") or ():
            return Address(namespace, name, int(one["containerPort"]))
    return Address(namespace, name, 80)


def _pod_port(pod: Object, text: str) -> int:
    if text.isdigit():
        return int(text)
    for container in (pod.get("spec") or {}).get("containers") or ():
        for one in container.get("ports") or ():
            if one.get("name") == text:
                return int(one["containerPort"])
    raise bad_request(f"no port named {text!r} in pod {pod['metadata']['name']!r}")


def service_address(core: Core, namespace: str, text: str) -> Address:
    """A ready Pod behind a port of a Service, found by its EndpointSlices."""
    name, port = _split(text)
    record = core.store.get("services", key_of(namespace, name))
    if record is None:
        raise not_found("services", "", name)
    chosen = _service_port(record.decode(), port, text)
    candidates = []
    for one in core.store.select("endpointslices.discovery.k8s.io", namespace):
        if one.labels.get("kubernetes.io/service-name") == name:
            candidates += _endpoints(one.decode(), chosen)
    if not candidates:
        raise Refusal(503, "ServiceUnavailable", f'no endpoints available for service "{text}"')
    return candidates[core.random.randrange(len(candidates))]


def _service_port(service: Object, port: str, text: str) -> Object:
    ports: list[Object] = (service.get("spec") or {}).get("ports") or []
    for one in ports:
        if port in (one.get("name") or "", str(one.get("port"))) and (port or len(ports) == 1):
            return one
    if not port and len(ports) == 1:
        return ports[0]
    raise Refusal(503, "ServiceUnavailable", f'no service port "{port}" found for service "{text}"')


def _endpoints(slice_: Object, chosen: Object) -> list[Address]:
    """Slices name their ports as the Service does, and carry the Pod's number."""
    found = []
    namespace = slice_["metadata"]["namespace"]
    for port in slice_.get("ports") or ():
        if (port.get("name") or "") != (chosen.get("name") or "") or port.get("port") is None:
            continue
        for endpoint in slice_.get("endpoints") or ():
            target = endpoint.get("targetRef") or {}
            ready = (endpoint.get("conditions") or {}).get("ready", True)
            if ready and target.get("name") and _is_own_pod(target, namespace):
                found.append(Address(namespace, target["name"], int(port["port"])))
    return found


def _is_own_pod(target: Object, namespace: str) -> bool:
    """A Service leads to Pods of its own namespace, whatever a slice says."""
    return target.get("kind") == "Pod" and target.get("namespace", namespace) == namespace


def _split(text: str) -> tuple[str, str]:
    parts = text.split(":")
    if len(parts) == 3 and parts[0] in ("http", ""):
        return parts[1], parts[2]
    if len(parts) == 2:
        return parts[0], parts[1]
    if len(parts) == 1:
        return text, ""
    raise bad_request(f"invalid proxy target {text!r}: only http is spoken")
