"""The phase of a RayService, which decides what is planned and what the status says."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum, auto

from manta.api.conditions import find, is_true
from manta.api.ray import names
from manta.api.ray.service import ServiceConditionReason, ServiceConditionType
from manta.api.times import parse_time
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.rules.validation.service import initializing_timeout
from manta.rules.validation.violation import Violation


class Phase(Enum):
    DELETING = auto()
    NEW = auto()
    SUSPEND_REQUESTED = auto()
    SUSPENDING = auto()
    SUSPENDED = auto()
    RESUMING = auto()
    INVALID = auto()
    RECOVERING = auto()
    """It had timed out, and its spec was edited since."""
    TIMED_OUT = auto()
    SERVING = auto()


def phase(snapshot: ServiceSnapshot) -> Phase:
    meta, conditions = snapshot.service.metadata, snapshot.status.conditions
    if meta.deletion_timestamp is not None:
        return Phase.DELETING
    if names.FINALIZER_RAY_SERVICE not in meta.finalizers:
        return Phase.NEW
    if is_true(conditions, ServiceConditionType.SUSPENDING):
        return Phase.SUSPENDING
    if is_true(conditions, ServiceConditionType.SUSPENDED):
        return Phase.SUSPENDED if snapshot.spec.suspend else Phase.RESUMING
    if snapshot.spec.suspend:
        return Phase.SUSPEND_REQUESTED
    if snapshot.violations:
        return Phase.INVALID
    ready = find(conditions, ServiceConditionType.READY)
    if ready is not None and ready.reason == ServiceConditionReason.INITIALIZING_TIMEOUT:
        edited = ready.observed_generation != meta.generation
        return Phase.RECOVERING if edited else Phase.TIMED_OUT
    return Phase.SERVING


def is_everything_gone(snapshot: ServiceSnapshot) -> bool:
    owned = snapshot.clusters or snapshot.own_services
    return not (owned or snapshot.gateway or snapshot.route)


def time_until_timeout(snapshot: ServiceSnapshot) -> timedelta | None:
    """How long the service may still take to become ready; None if no timeout applies."""
    limit = initializing_timeout(snapshot.service)
    ready = find(snapshot.status.conditions, ServiceConditionType.READY)
    if limit is None or isinstance(limit, Violation):
        return None
    if ready is None or ready.reason != ServiceConditionReason.INITIALIZING:
        return None
    return parse_time(ready.last_transition_time) + limit - snapshot.now


def is_out_of_time(snapshot: ServiceSnapshot) -> bool:
    left = time_until_timeout(snapshot)
    return left is not None and left <= timedelta(0)
