"""Events about the RayService itself, which no action emits."""

from __future__ import annotations

from collections.abc import Iterator

from manta.api.conditions import find
from manta.api.ray.service import RayServiceStatuses, ServiceConditionReason, ServiceConditionType
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.reconcile.events import Event


def status_events(snapshot: ServiceSnapshot, new: RayServiceStatuses) -> Iterator[Event]:
    """Emit each Event once: when the status changes to what it says."""
    yield from _rollback(snapshot, new)
    ready = find(new.conditions, ServiceConditionType.READY)
    before = find(snapshot.status.conditions, ServiceConditionType.READY)
    if ready is None or _says_the_same(before, ready):
        return
    if ready.reason == ServiceConditionReason.VALIDATION_FAILED:
        in_metadata = snapshot.violations[0].field.startswith("metadata")
        reason = "InvalidRayServiceMetadata" if in_metadata else "InvalidRayServiceSpec"
        yield Event("Warning", reason, "Validate", ready.message)
    if ready.reason == ServiceConditionReason.INITIALIZING_TIMEOUT:
        yield Event("Warning", "RayServiceInitializingTimeout", "Reconcile", ready.message)


def _rollback(snapshot: ServiceSnapshot, new: RayServiceStatuses) -> Iterator[Event]:
    before, after = snapshot.pending_name, new.pending_service_status.ray_cluster_name
    lost = snapshot.is_incremental and snapshot.active_name and snapshot.active is None
    if lost and before and after not in ("", before):
        note = f"RayCluster {snapshot.active_name} is gone: there is nothing to roll back to"
        yield Event("Warning", "RollbackImpossible", "Reconcile", note)


def _says_the_same(before: object, now: object) -> bool:
    fields = ("reason", "message")
    return all(getattr(before, name, None) == getattr(now, name) for name in fields)
