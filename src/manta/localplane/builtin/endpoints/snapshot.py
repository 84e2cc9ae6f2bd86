"""The snapshot of a Service and its endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from manta.api.meta import Key, Object
from manta.localplane.builtin.views import EndpointSlice, Node, Pod, Service

MANAGER = "endpointslice-controller.k8s.io"


@dataclass(frozen=True, slots=True)
class ServiceSnapshot:
    key: Key
    service: Service | None
    pods: tuple[Pod, ...]
    """The Pods that the selector of the Service selects."""
    nodes: Mapping[str, Node]
    """The nodes of these Pods, as far as they exist."""
    slices: tuple[EndpointSlice, ...]
    """The slices of this Service that this controller manages."""
    legacy: Legacy | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Legacy:
    """The Endpoints object of the same name."""

    meta: Object
    subsets: tuple[object, ...]


def selects(service: Service) -> bool:
    """Only Services with a selector are ours; the others are filled by hand."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"
