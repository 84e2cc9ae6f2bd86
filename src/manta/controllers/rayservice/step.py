"""What a planner answers: what to do now, and how the status changes once it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from manta.api.ray.service import RayServiceStatus, RayServiceStatuses
from manta.reconcile.actions import Action
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import NOTHING, Plan

Change = Callable[[RayServiceStatuses], RayServiceStatuses]


def unchanged(status: RayServiceStatuses) -> RayServiceStatuses:
    return status


@dataclass(frozen=True, slots=True)
class Step:
    plan: Plan = NOTHING
    change: Change = unchanged
    """What becomes of the status when all that it hangs on was done."""
    hangs_on: tuple[Action, ...] | None = None
    """The actions that `change` hangs on; None: all actions of the plan."""
    timer: timedelta | None = None
    """When to look again although nothing changed."""

    def is_done(self, outcome: Outcome) -> bool:
        needed = self.plan.actions if self.hangs_on is None else self.hangs_on
        undone = [*(failure.action for failure in outcome.failures), *outcome.skipped]
        return not any(action in undone for action in needed)


NO_STEP = Step()


def with_active(status: RayServiceStatuses, **fields: Any) -> RayServiceStatuses:
    active = msgspec.structs.replace(status.active_service_status, **fields)
    return msgspec.structs.replace(status, active_service_status=active)


def with_pending(status: RayServiceStatuses, **fields: Any) -> RayServiceStatuses:
    pending = msgspec.structs.replace(status.pending_service_status, **fields)
    return msgspec.structs.replace(status, pending_service_status=pending)


def promoted(status: RayServiceStatuses) -> RayServiceStatuses:
    """The pending cluster serves now."""
    return msgspec.structs.replace(
        status,
        active_service_status=status.pending_service_status,
        pending_service_status=RayServiceStatus(),
    )


def without_pending(status: RayServiceStatuses) -> RayServiceStatuses:
    return msgspec.structs.replace(status, pending_service_status=RayServiceStatus())


def forget_shares(status: RayServiceStatuses) -> RayServiceStatuses:
    """Traffic is no longer split: all of it goes where the stable Service points."""
    nothing = {
        "target_capacity": None,
        "traffic_routed_percent": None,
        "last_traffic_migrated_time": None,
    }
    return with_pending(with_active(status, **nothing), **nothing)
