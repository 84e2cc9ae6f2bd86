"""The addresses that Endpoints and EndpointSlices may hold: those that Kubernetes accepts.

One more is accepted here: the address of a Pod of the same namespace that the endpoint names. With `--isolation none` Pods have addresses in 127.0.0.0/8, and only nodes write a Pod's status.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from manta.api.addresses import special_address
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.schema.causes import invalid as invalid_value
from manta.localplane.apiserver.status_errors import invalid
from manta.localplane.store.objects import key_of

Object = dict[str, Any]
_Found = tuple[str, str, Object]
"""A field, the address in it, and the targetRef of the endpoint."""

_CONTENT = {"endpointslices.discovery.k8s.io": "endpoints", "endpoints": "subsets"}


def check_endpoint_addresses(core: Core, call: Call, obj: Object, old: Object | None) -> None:
    """Raise a 422 for loopback, link-local and other special addresses."""
    resource = call.resource
    part = _CONTENT.get(resource.group_resource)
    if part is None:
        return
    if old is not None and old.get(part) == obj.get(part):
        return
    found = _in_slice(obj) if part == "endpoints" else _in_subsets(obj)
    namespace = obj["metadata"].get("namespace", "")
    causes = [cause for one in found if (cause := _cause(core, namespace, one)) is not None]
    if causes:
        raise invalid(resource.kind, resource.group, obj["metadata"].get("name", ""), causes)


def _in_slice(endpoint_slice: Object) -> Iterator[_Found]:
    if endpoint_slice.get("addressType") not in ("IPv4", "IPv6"):
        return
    for index, endpoint in enumerate(endpoint_slice.get("endpoints") or ()):
        for number, address in enumerate(endpoint.get("addresses") or ()):
            field = f"endpoints[{index}].addresses[{number}]"
            yield field, address, endpoint.get("targetRef") or {}


def _in_subsets(endpoints: Object) -> Iterator[_Found]:
    for index, subset in enumerate(endpoints.get("subsets") or ()):
        for part in ("addresses", "notReadyAddresses"):
            for number, one in enumerate(subset.get(part) or ()):
                field = f"subsets[{index}].{part}[{number}].ip"
                yield field, one.get("ip", ""), one.get("targetRef") or {}


def _cause(core: Core, namespace: str, found: _Found) -> Cause | None:
    field, address, target = found
    problem = special_address(address)
    if not problem or _is_own_pod(core, namespace, address, target):
        return None
    return invalid_value(field, address, problem)


def _is_own_pod(core: Core, namespace: str, address: str, target: Object) -> bool:
    if target.get("kind") != "Pod" or target.get("namespace", namespace) != namespace:
        return False
    record = core.store.get("pods", key_of(namespace, str(target.get("name", ""))))
    if record is None:
        return False
    return bool((record.decode().get("status") or {}).get("podIP") == address)
