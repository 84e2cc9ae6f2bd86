"""Resolves the Pod, container or port of a streaming request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manta.api.well_known import LABEL_SERVICE_NAME
from manta.localplane.apiserver.core import Core
from manta.localplane.apiserver.status_errors import StatusError, bad_request, not_found
from manta.localplane.store.objects import key_of

Object = dict[str, Any]


def find_pod(core: Core, namespace: str, name: str) -> Object:
    """Return the Pod. Raises StatusError."""
    record = core.store.get("pods", key_of(namespace, name))
    if record is None:
        raise not_found("pods", "", name)
    return record.decode()


def choose_container(pod: Object, container: str) -> str:
    """Return the requested container, or the only one. Raises StatusError."""
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    containers = [one["name"] for one in spec.get("containers") or ()]
    initial = [one["name"] for one in spec.get("initContainers") or ()]
    ephemeral = [one["name"] for one in spec.get("ephemeralContainers") or ()]
    if container:
        if container not in (*containers, *initial, *ephemeral):
            raise bad_request(f"container {container} is not valid for pod {name}")
        return container
    if len(containers) == 1:
        return str(containers[0])
    more = f" or one of the init containers: [{' '.join(initial)}]" if initial else ""
    raise bad_request(
        f"a container name must be specified for pod {name}, choose one of: "
        f"[{' '.join(containers)}]{more}"
    )


@dataclass(frozen=True, slots=True)
class Address:
    """The port of a Pod that a proxy request is sent to."""

    namespace: str
    pod: str
    port: int


def pod_address(core: Core, namespace: str, text: str) -> Address:
    """Resolve `NAME`, `NAME:PORT` or `http:NAME:PORT`; default is the first port of the Pod.

    Raises StatusError.
    """
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


class NoEndpoints(StatusError):  # noqa: N818 - a state, not a fault
    """The Service exists, but no Pod of it is ready."""

    def __init__(self, text: str) -> None:
        message = f'no endpoints available for service "{text}"'
        super().__init__(503, "ServiceUnavailable", message)


def service_and_port(text: str) -> tuple[str, str]:
    """The name and port in `NAME`, `NAME:PORT` or `http:NAME:PORT`. Raises StatusError."""
    return _split(text)


def service_address(core: Core, namespace: str, text: str) -> Address:
    """Return a ready Pod of a Service, from its EndpointSlices. Raises StatusError."""
    name, port = _split(text)
    record = core.store.get("services", key_of(namespace, name))
    if record is None:
        raise not_found("services", "", name)
    chosen = _service_port(record.decode(), port, text)
    candidates = []
    for one in core.store.select("endpointslices.discovery.k8s.io", namespace):
        if one.labels.get(LABEL_SERVICE_NAME) == name:
            candidates += _endpoints(one.decode(), chosen)
    if not candidates:
        raise NoEndpoints(text)
    return candidates[core.random.randrange(len(candidates))]


def _service_port(service: Object, port: str, text: str) -> Object:
    ports: list[Object] = (service.get("spec") or {}).get("ports") or []
    for one in ports:
        if port in (one.get("name") or "", str(one.get("port"))) and (port or len(ports) == 1):
            return one
    if not port and len(ports) == 1:
        return ports[0]
    raise StatusError(
        503, "ServiceUnavailable", f'no service port "{port}" found for service "{text}"'
    )


def _endpoints(slice_: Object, chosen: Object) -> list[Address]:
    """Return the ready Pods of a slice with the port that has the name of the Service port."""
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
    """Ignore targets in other namespaces: a slice may name any Pod."""
    return target.get("kind") == "Pod" and target.get("namespace", namespace) == namespace


def _split(text: str) -> tuple[str, str]:
    parts = text.split(":")
    if len(parts) == 3 and parts[0] in ("http", ""):
        return parts[1], parts[2]
    if len(parts) == 2:
        return parts[0], parts[1]
    if len(parts) == 1:
        return text, ""
    raise bad_request(f"invalid proxy target {text!r}: only http is supported")
