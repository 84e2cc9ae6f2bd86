"""Changes of a RayService's status that planners use."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.ray.service import RayServiceStatus, RayServiceStatuses
from manta.reconcile.step import Step

ServiceStep = Step[RayServiceStatuses]


def with_active(status: RayServiceStatuses, **fields: Any) -> RayServiceStatuses:
    active = msgspec.structs.replace(status.active_service_status, **fields)
    return msgspec.structs.replace(status, active_service_status=active)


def with_pending(status: RayServiceStatuses, **fields: Any) -> RayServiceStatuses:
    pending = msgspec.structs.replace(status.pending_service_status, **fields)
    return msgspec.structs.replace(status, pending_service_status=pending)


def promoted(status: RayServiceStatuses) -> RayServiceStatuses:
    """The pending cluster becomes the active one."""
    return msgspec.structs.replace(
        status,
        active_service_status=status.pending_service_status,
        pending_service_status=RayServiceStatus(),
    )


def without_pending(status: RayServiceStatuses) -> RayServiceStatuses:
    return msgspec.structs.replace(status, pending_service_status=RayServiceStatus())


_SPLIT = ("target_capacity", "traffic_routed_percent", "last_traffic_migrated_time")


def with_split_of(side: RayServiceStatus, other: RayServiceStatus) -> RayServiceStatus:
    return msgspec.structs.replace(side, **{name: getattr(other, name) for name in _SPLIT})


def clear_traffic_split(status: RayServiceStatuses) -> RayServiceStatuses:
    """Traffic is no longer split: all of it follows the stable Service."""
    cleared = dict.fromkeys(_SPLIT)
    return with_pending(with_active(status, **cleared), **cleared)
