"""Events that no action leaves behind: what a round found out about the RayService itself."""

from __future__ import annotations

from collections.abc import Iterator

from manta.api.conditions import find
from manta.api.ray.service import RayServiceStatuses, ServiceConditionReason, ServiceConditionType
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.reconcile.events import Told


def announcements(seen: ServiceSnapshot, new: RayServiceStatuses) -> Iterator[Told]:
    """Told once, when the status begins to say it."""
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


def _says_the_same(before: object, now: object) -> bool:
    fields = ("reason", "message")
    return all(getattr(before, name, None) == getattr(now, name) for name in fields)
