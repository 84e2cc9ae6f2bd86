"""Which slices of a Service to create, change and delete. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from manta.api.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from manta.api.times import format_time
from manta.localplane.builtin.endpoints import legacy
from manta.localplane.builtin.endpoints.addresses import desired
from manta.localplane.builtin.endpoints.slices import Packed, pack
from manta.localplane.builtin.endpoints.snapshot import (
    HEADLESS,
    MANAGED_BY,
    MANAGER,
    SERVICE_NAME,
    ServiceSnapshot,
    selects,
)
from manta.localplane.builtin.ownership import controlled_by
from manta.localplane.builtin.views import EndpointSlice, Service, as_json
from manta.reconcile.actions import Create, Delete, Patch
from manta.reconcile.plan import NOTHING, Plan, do

TRIGGERED = "endpoints.kubernetes.io/last-change-trigger-time"


class Cause(StrEnum):
    CHANGED = "the Pods behind the Service changed"
    UNUSED = "no endpoint needs this slice"
    GONE = "the Service is gone"


def plan(seen: ServiceSnapshot) -> Plan:
    if seen.service is None:
        return _forget(seen)
    if seen.service.metadata.deletion_timestamp or not selects(seen.service):
        return NOTHING
    return _plan_slices(seen, seen.service).then(_plan_legacy(seen, seen.service))


def _forget(seen: ServiceSnapshot) -> Plan:
    """Slices go with their owner; the Endpoints object has none and is deleted by name."""
    if seen.legacy is None:
        return NOTHING
    meta = seen.legacy.meta.metadata
    return do(Delete(ENDPOINTS, meta.key, meta.uid, Cause.GONE))


def _plan_slices(seen: ServiceSnapshot, service: Service) -> Plan:
    wanted = pack(desired(seen, service), seen.slices)
    kept = {one.slice.metadata.uid for one in wanted if one.slice}
    writes = [
        _write(seen, service, one)
        for one in wanted
        if one.is_changed or (one.slice and not _is_labelled(service, one.slice))
    ]
    surplus = [
        Delete(ENDPOINT_SLICES, one.metadata.key, one.metadata.uid, Cause.UNUSED)
        for one in seen.slices
        if one.metadata.uid not in kept
    ]
    # Endpoints that move to another slice are there twice for a moment, never missing.
    return do(*writes).then(do(*surplus))


def _write(seen: ServiceSnapshot, service: Service, one: Packed) -> Create | Patch:
    content = {
        "endpoints": as_json(one.endpoints) or None,
        "ports": as_json(one.ports) or None,
    }
    meta = {
        "labels": slice_labels(service),
        "annotations": {TRIGGERED: format_time(seen.now)},
    }
    if one.slice:
        seen_as = one.slice.metadata
        return Patch(
            ENDPOINT_SLICES,
            seen_as.key,
            {"metadata": meta, **content},
            Cause.CHANGED,
            uid=seen_as.uid,
            resource_version=seen_as.resource_version,
        )
    manifest: dict[str, Any] = {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": ENDPOINT_SLICES.kind,
        "metadata": {
            "generateName": f"{service.metadata.name}-",
            "namespace": service.metadata.namespace,
            "ownerReferences": [controlled_by(SERVICES, service.metadata)],
            **meta,
        },
        "addressType": address_type(one),
        **content,
    }
    return Create(ENDPOINT_SLICES, manifest, Cause.CHANGED)


def address_type(one: Packed) -> str:
    first = next(iter(one.endpoints), None)
    return "IPv6" if first and ":" in first.addresses[0] else "IPv4"


def slice_labels(service: Service) -> dict[str, str]:
    own = {MANAGED_BY: MANAGER, SERVICE_NAME: service.metadata.name}
    return {**service.metadata.labels, **own, **({HEADLESS: ""} if service.is_headless else {})}


def _is_labelled(service: Service, one: EndpointSlice) -> bool:
    return slice_labels(service).items() <= one.metadata.labels.items()


def _plan_legacy(seen: ServiceSnapshot, service: Service) -> Plan:
    subsets, labels = legacy.subsets(seen, service), legacy.labels(service)
    meta, triggered = service.metadata, {TRIGGERED: format_time(seen.now)}
    if seen.legacy is None:
        manifest = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "labels": labels,
                "annotations": triggered,
            },
            **({"subsets": subsets} if subsets else {}),
        }
        return do(Create(ENDPOINTS, manifest, Cause.CHANGED, adopt=False))
    held = seen.legacy.meta.metadata
    if list(seen.legacy.subsets) == subsets and labels.items() <= held.labels.items():
        return NOTHING
    patch = {
        "metadata": {"labels": labels, "annotations": triggered},
        "subsets": subsets or None,
    }
    return do(Patch(ENDPOINTS, held.key, patch, Cause.CHANGED, uid=held.uid))
