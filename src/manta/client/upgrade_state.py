"""Where the upgrade of a RayService is, and what it waits for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from manta.api.conditions import find, is_true
from manta.api.ray.service import (
    RayService,
    RayServiceStatus,
    ServiceConditionReason,
    ServiceConditionType,
)


class Stage(Enum):
    NOT_OBSERVED = auto()
    """The operator has not observed the last edit."""
    STARTING = auto()
    UPGRADING = auto()
    ROLLING_BACK = auto()
    COMPLETE = auto()
    FAILED = auto()

    @property
    def is_last(self) -> bool:
        return self in (Stage.COMPLETE, Stage.FAILED)


@dataclass(frozen=True, slots=True)
class Side:
    """One cluster of the service."""

    cluster: str
    role: str
    traffic: int
    capacity: int
    applications: str
    """Applications that do not run, with their states; empty if all run."""


@dataclass(frozen=True, slots=True)
class View:
    name: str
    stage: Stage
    sides: tuple[Side, ...] = ()
    waits_for: str = ""
    """In one line."""

    @property
    def verdict(self) -> str:
        if self.stage is Stage.FAILED:
            return f"rayservice/{self.name} failed: {self.waits_for}"
        cluster = self.sides[0].cluster if self.sides else "no cluster"
        return f"rayservice/{self.name} is served by {cluster}; the upgrade is complete"


_FATAL = (
    ServiceConditionReason.VALIDATION_FAILED,
    ServiceConditionReason.INITIALIZING_TIMEOUT,
    ServiceConditionReason.SUSPEND_COMPLETE,
    ServiceConditionReason.SUSPEND_IN_PROGRESS,
)


def view_of(service: RayService) -> View:
    status, name = service.status, service.metadata.name
    stage, waits_for = _stage(service)
    active, pending = status.active_service_status, status.pending_service_status
    sides = [_side(active, "active", default=100)] if active.ray_cluster_name else []
    if pending.ray_cluster_name:
        sides.append(_side(pending, "pending", default=0))
    return View(name, stage, tuple(sides), " ".join(waits_for.split()))


def _stage(service: RayService) -> tuple[Stage, str]:
    status, conditions = service.status, service.status.conditions
    if status.observed_generation != service.metadata.generation:
        return Stage.NOT_OBSERVED, "the operator to observe the last edit"
    ready = find(conditions, ServiceConditionType.READY)
    upgrade = find(conditions, ServiceConditionType.UPGRADE_IN_PROGRESS)
    if ready is not None and ready.reason in _FATAL:
        return Stage.FAILED, ready.message
    if upgrade is not None and upgrade.reason == ServiceConditionReason.CANARY_REJECTED:
        return Stage.FAILED, upgrade.message
    if status.pending_service_status.ray_cluster_name:
        message = upgrade.message if upgrade else ""
        if is_true(conditions, ServiceConditionType.ROLLBACK_IN_PROGRESS):
            return Stage.ROLLING_BACK, message
        if not status.active_service_status.ray_cluster_name:
            return Stage.STARTING, ready.message if ready else message
        return Stage.UPGRADING, message
    if is_true(conditions, ServiceConditionType.READY):
        return Stage.COMPLETE, ""
    return Stage.STARTING, ready.message if ready else "the operator to begin"


def _side(side: RayServiceStatus, role: str, *, default: int) -> Side:
    traffic, capacity = side.traffic_routed_percent, side.target_capacity
    unready = (
        f"{name} {one.status}"
        for name, one in side.application_statuses.items()
        if one.status != "RUNNING"
    )
    return Side(
        side.ray_cluster_name,
        role,
        default if traffic is None else traffic,
        100 if capacity is None else capacity,
        ", ".join(unready),
    )


WORDS: Final[Mapping[Stage, str]] = {
    Stage.NOT_OBSERVED: "waits for its next reconcile",
    Stage.STARTING: "starts",
    Stage.UPGRADING: "is being upgraded",
    Stage.ROLLING_BACK: "is being rolled back",
    Stage.COMPLETE: "is up to date",
    Stage.FAILED: "failed",
}
