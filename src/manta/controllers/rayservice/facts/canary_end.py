"""What a canary waits for, and why it ends before its last step: by hand, by its figures, or without progress."""

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


def rejection_reason(snapshot: ServiceSnapshot) -> str:
    """Why this canary must be rolled back now; empty if it need not."""
    aborted = snapshot.service.metadata.annotations.get(names.ANNOTATION_CANARY_ABORT)
    if aborted == snapshot.pending_name:
        return "it was aborted by hand"
    found = canary_verdict(snapshot)
    if found is not None and found.judgement is Judgement.BROKEN:
        return found.text
    return _stalled(snapshot) if stalls_in(snapshot) == timedelta(0) else ""


# ── the deadline ─────────────────────────────────────────────────────────────────────────


def progress_mark(status: RayServiceStatuses) -> tuple[object, ...]:
    """It changes whenever a canary gets further: a new cluster, another step, or capacity that moved."""
    old, new = status.active_service_status, status.pending_service_status
    step = (new.ray_cluster_name, new.traffic_routed_percent, new.last_traffic_migrated_time)
    return (*step, new.target_capacity, old.target_capacity)


def stalls_in(snapshot: ServiceSnapshot) -> timedelta | None:
    """How long this step may still go without progress; zero: no longer. None: it is reached, or the clock stands.

    The status of the active cluster records when the canary last got further. While no operator ran, nothing could.
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
            return None  # a queue holds it
        moment = parse_optional_time(suspended.last_transition_time) if suspended else None
        since = max(since, moment) if moment else since
    return max(since + _longest(snapshot) - snapshot.now, timedelta(0))


def _unmanaged(snapshot: ServiceSnapshot, since: datetime) -> timedelta:
    """How long nobody looked at the service after that moment, before this operator did."""
    if snapshot.unmanaged is None:
        return timedelta(0)
    left, came = snapshot.unmanaged
    return max(came - max(left, since), timedelta(0))


def _longest(snapshot: ServiceSnapshot) -> timedelta:
    """How long a step may go without progress: an old worker that drains has its time beside the deadline."""
    active = snapshot.active
    drains = drain_seconds(active.cluster.metadata.annotations) if active is not None else 0
    return progress_deadline(snapshot.canary_options) + timedelta(seconds=drains)


def _stalled(snapshot: ServiceSnapshot) -> str:
    now, groups = progress(snapshot), worker_groups(snapshot)
    seconds = int(_longest(snapshot).total_seconds())
    text = waits_for(snapshot, now, groups)
    problem = _problem(snapshot)
    more = f": {problem}" if problem and problem not in text else ""
    return f"no progress for {seconds} s at step {now.number} of {now.of} ({now.weight} %): {text}{more}"


def _problem(snapshot: ServiceSnapshot) -> str:
    """What keeps the Pods of the new cluster from running, or from being created; empty if nothing does."""
    pending = snapshot.pending
    if pending is None:
        return ""
    blocked = find(pending.cluster.status.conditions, ClusterConditionType.BLOCKED)
    found = next((one.message for pod in pending.pods if (one := blockage(pod))), "")
    return found or (blocked.message if blocked is not None else "")


# ── what it waits for ────────────────────────────────────────────────────────────────────


def waits_for(snapshot: ServiceSnapshot, now: Progress, groups: tuple[Group, ...]) -> str:
    """The same text until something changes."""
    obstacle = canary_obstacle(snapshot)
    if obstacle:
        return obstacle
    if now.reached_at is not None:
        after = next_weight(snapshot, now)
        return hold(snapshot, now) or f"next, RayCluster {snapshot.pending_name} gets {after} %"
    for one in groups:
        if one.new_ready < one.new:
            text = f"waiting for workers of group {one.name} of RayCluster {snapshot.pending_name}"
            return f"{text}: {problem}" if (problem := _problem(snapshot)) else text
        short = one.new < part(now.weight, one.full_new)
        if short and grown(one, now.weight, snapshot.canary_options) == one.new:
            held = max(one.old, one.old_held) + one.others_held
            return f"waiting for room for group {one.name}: {held} older workers hold theirs"
        if shrunk(one, now.weight) < one.old:
            return f"waiting until Serve needs fewer workers of group {one.name} of RayCluster {snapshot.active_name}"
    return "traffic moves"
