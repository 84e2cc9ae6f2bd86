"""Events that no action leaves behind: what a round found out about the RayService itself."""

from __future__ import annotations

from collections.abc import Iterator

from manta.api.conditions import find
from manta.api.ray.service import RayServiceStatuses, ServiceConditionReason, ServiceConditionType
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.reconcile.events import Told


def announcements(seen: ServiceSnapshot, new: RayServiceStatuses) -> Iterator[Told]:
    """Told once, when the status begins to say it."""
    yield from _rollback(seen, new)
    ready = find(new.conditions, ServiceConditionType.READY)
    before = find(seen.status.conditions, ServiceConditionType.READY)
    if ready is None or _says_the_same(before, ready):
        return
    if ready.reason == ServiceConditionReason.VALIDATION_FAILED:
        in_metadata = seen.violations[0].field.startswith("metadata")
        reason = "InvalidRayServiceMetadata" if in_metadata else "InvalidRayServiceSpec"
        yield Told("Warning", reason, "Validate", ready.message)
    if ready.reason == ServiceConditionReason.INITIALIZING_TIMEOUT:
        yield Told("Warning", "RayServiceInitializingTimeout", "Reconcile", ready.message)


def _rollback(seen: ServiceSnapshot, new: RayServiceStatuses) -> Iterator[Told]:
    before, after = seen.pending_name, new.pending_service_status.ray_cluster_name
    lost = seen.is_incremental and seen.active_name and seen.active is None
    if lost and before and after not in ("", before):
        note = f"RayCluster {seen.active_name} is gone: there is nothing to roll back to"
        yield Told("Warning", "RollbackImpossible", "Reconcile", note)


def _says_the_same(before: object, now: object) -> bool:
    fields = ("reason", "message")
    return all(getattr(before, name, None) == getattr(now, name) for name in fields)
