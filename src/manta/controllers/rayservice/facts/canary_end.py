"""What a canary waits for, and why it is rolled back: aborted by the user, over a metric limit, or no progress."""

from __future__ import annotations

from datetime import datetime, timedelta

from manta.api.conditions import find
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType
from manta.api.ray.service import RayServiceStatuses
from manta.api.times import parse_optional_time
from manta.controllers.rayservice.facts.canary import (
    Progress,
    canary_obstacle,
    canary_verdict,
    hold,
    next_weight,
    progress,
    worker_groups,
)
from manta.controllers.rayservice.facts.clusters import rejection
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.rules.canary import Group, grown, part, progress_deadline, shrunk
from manta.rules.canary_analysis import Judgement
from manta.rules.pod_health import blockage
from manta.rules.traits import drain_seconds


def rollback_reason(snapshot: ServiceSnapshot) -> str:
    """Why this canary must be rolled back now; empty if it need not."""
    aborted = snapshot.service.metadata.annotations.get(names.ANNOTATION_CANARY_ABORT)
    if aborted == snapshot.pending_name:
        return "it was aborted by hand"
    found = canary_verdict(snapshot)
    if found is not None and found.judgement is Judgement.BROKEN:
        return found.text
    return _stalled_message(snapshot) if stalls_in(snapshot) == timedelta(0) else ""


# ── the deadline ─────────────────────────────────────────────────────────────────────────


def progress_mark(status: RayServiceStatuses) -> tuple[object, ...]:
    """A value that differs after each progress of a canary: a new cluster, another step, or capacity that moved."""
    old, new = status.active_service_status, status.pending_service_status
    step = (new.ray_cluster_name, new.traffic_routed_percent, new.last_traffic_migrated_time)
    return (*step, new.target_capacity, old.target_capacity)


def stalls_in(snapshot: ServiceSnapshot) -> timedelta | None:
    """The time until the progress deadline of this step; zero: it has passed.

    None: no deadline applies, because the step is reached, the canary was rejected, the new cluster is suspended, or
    no progress is recorded yet. The status of the active cluster records it. Time without an operator does not count.
    """
    recorded = snapshot.status.active_service_status.last_traffic_migrated_time
    since = parse_optional_time(recorded)
    if since is None or rejection(snapshot) or progress(snapshot).reached_at is not None:
        return None
    since += _unmanaged(snapshot, since)
    pending = snapshot.pending
    if pending is not None:
        suspended = find(pending.cluster.status.conditions, ClusterConditionType.SUSPENDED)
        if pending.cluster.spec.suspend or (suspended and suspended.status == "True"):
            return None  # a queue such as Kueue suspends it
        resumed_at = parse_optional_time(suspended.last_transition_time) if suspended else None
        since = max(since, resumed_at) if resumed_at else since
    return max(since + _deadline(snapshot) - snapshot.now, timedelta(0))


def _unmanaged(snapshot: ServiceSnapshot, since: datetime) -> timedelta:
    """How long after `since` no operator reconciled the service."""
    if snapshot.unmanaged is None:
        return timedelta(0)
    last_status, first_reconcile = snapshot.unmanaged
    return max(first_reconcile - max(last_status, since), timedelta(0))


def _deadline(snapshot: ServiceSnapshot) -> timedelta:
    """How long a step may go without progress: the progress deadline plus the drain time of an old worker."""
    active = snapshot.active
    drains = drain_seconds(active.cluster.metadata.annotations) if active is not None else 0
    return progress_deadline(snapshot.canary_options) + timedelta(seconds=drains)


def _stalled_message(snapshot: ServiceSnapshot) -> str:
    current, groups = progress(snapshot), worker_groups(snapshot)
    seconds = int(_deadline(snapshot).total_seconds())
    text = waits_for(snapshot, current, groups)
    problem = _problem(snapshot)
    more = f": {problem}" if problem and problem not in text else ""
    return f"no progress for {seconds} s at step {current.number} of {current.of} ({current.weight} %): {text}{more}"


def _problem(snapshot: ServiceSnapshot) -> str:
    """What keeps the Pods of the new cluster from running, or from being created; empty if nothing does."""
    pending = snapshot.pending
    if pending is None:
        return ""
    blocked = find(pending.cluster.status.conditions, ClusterConditionType.BLOCKED)
    found = next((one.message for pod in pending.pods if (one := blockage(pod))), "")
    return found or (blocked.message if blocked is not None else "")


# ── what it waits for ────────────────────────────────────────────────────────────────────


def waits_for(snapshot: ServiceSnapshot, current: Progress, groups: tuple[Group, ...]) -> str:
    """What the step waits for, as a text that stays the same until something changes."""
    obstacle = canary_obstacle(snapshot)
    if obstacle:
        return obstacle
    if current.reached_at is not None:
        after = next_weight(snapshot, current)
        return hold(snapshot, current) or f"next, RayCluster {snapshot.pending_name} gets {after} %"
    for one in groups:
        if one.new_ready < one.new:
            text = f"waiting for workers of group {one.name} of RayCluster {snapshot.pending_name}"
            return f"{text}: {problem}" if (problem := _problem(snapshot)) else text
        needs_more = one.new < part(current.weight, one.full_new)
        if needs_more and grown(one, current.weight, snapshot.canary_options) == one.new:
            held = max(one.old, one.old_held) + one.others_held
            return f"waiting for room for group {one.name}: {held} older workers hold theirs"
        if shrunk(one, current.weight) < one.old:
            return f"waiting until Serve needs fewer workers of group {one.name} of RayCluster {snapshot.active_name}"
    return "traffic moves"
