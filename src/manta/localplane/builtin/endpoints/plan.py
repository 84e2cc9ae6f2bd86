"""Which slices of a Service to create, change and delete. Pure."""

from __future__ import annotations

from typing import Any

from manta.api.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from manta.api.times import format_time
from manta.api.well_known import (
    ANNOTATION_LAST_CHANGE_TRIGGER_TIME,
    LABEL_ENDPOINT_SLICE_MANAGED_BY,
    LABEL_HEADLESS_SERVICE,
    LABEL_SERVICE_NAME,
)
from manta.localplane.builtin.endpoints import legacy
from manta.localplane.builtin.endpoints.addresses import desired
from manta.localplane.builtin.endpoints.slices import Packed, pack
from manta.localplane.builtin.endpoints.snapshot import MANAGER, ServiceSnapshot, selects
from manta.localplane.builtin.views import EndpointSlice, Service, as_json
from manta.reconcile.actions import Create, Delete, OnExists, Patch
from manta.reconcile.causes import ONLY_FAILURES, ActionCause
from manta.reconcile.plan import NOTHING, Plan, do


class Cause(ActionCause):
    CHANGED = ONLY_FAILURES, "the Pods behind the Service changed"
    UNUSED = ONLY_FAILURES, "no endpoint needs this slice"
    GONE = ONLY_FAILURES, "the Service is gone"


def plan(snapshot: ServiceSnapshot) -> Plan:
    if snapshot.service is None:
        return _forget(snapshot)
    if snapshot.service.metadata.deletion_timestamp or not selects(snapshot.service):
        return NOTHING
    return _plan_slices(snapshot, snapshot.service).then(_plan_legacy(snapshot, snapshot.service))


def _forget(snapshot: ServiceSnapshot) -> Plan:
    """Slices go with their owner; the Endpoints object has none and is deleted by name."""
    if snapshot.legacy is None:
        return NOTHING
    meta = snapshot.legacy.meta.metadata
    return do(Delete(ENDPOINTS, meta.key, meta.uid, Cause.GONE))


def _plan_slices(snapshot: ServiceSnapshot, service: Service) -> Plan:
    wanted = pack(desired(snapshot, service), snapshot.slices)
    kept = {one.slice.metadata.uid for one in wanted if one.slice}
    writes = [
        _write(snapshot, service, one)
        for one in wanted
        if one.is_changed or (one.slice and not _is_labelled(service, one.slice))
    ]
    surplus = [
        Delete(ENDPOINT_SLICES, one.metadata.key, one.metadata.uid, Cause.UNUSED)
        for one in snapshot.slices
        if one.metadata.uid not in kept
    ]
    # Endpoints that move to another slice are there twice for a moment, never missing.
    return do(*writes).then(do(*surplus))


def _write(snapshot: ServiceSnapshot, service: Service, one: Packed) -> Create | Patch:
    content = {"endpoints": as_json(one.endpoints) or None, "ports": as_json(one.ports) or None}
    meta = {
        "labels": slice_labels(service),
        "annotations": {ANNOTATION_LAST_CHANGE_TRIGGER_TIME: format_time(snapshot.now)},
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
            "ownerReferences": [SERVICES.controller_reference(service.metadata)],
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
    own = {LABEL_ENDPOINT_SLICE_MANAGED_BY: MANAGER, LABEL_SERVICE_NAME: service.metadata.name}
    return {
        **service.metadata.labels,
        **own,
        **({LABEL_HEADLESS_SERVICE: ""} if service.is_headless else {}),
    }


def _is_labelled(service: Service, one: EndpointSlice) -> bool:
    return slice_labels(service).items() <= one.metadata.labels.items()


def _plan_legacy(snapshot: ServiceSnapshot, service: Service) -> Plan:
    subsets, labels = legacy.subsets(snapshot, service), legacy.labels(service)
    meta, triggered = (
        service.metadata,
        {ANNOTATION_LAST_CHANGE_TRIGGER_TIME: format_time(snapshot.now)},
    )
    if snapshot.legacy is None:
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
        return do(Create(ENDPOINTS, manifest, Cause.CHANGED, on_exists=OnExists.FAIL))
    held = snapshot.legacy.meta.metadata
    if list(snapshot.legacy.subsets) == subsets and labels.items() <= held.labels.items():
        return NOTHING
    patch = {"metadata": {"labels": labels, "annotations": triggered}, "subsets": subsets or None}
    return do(Patch(ENDPOINTS, held.key, patch, Cause.CHANGED, uid=held.uid))
