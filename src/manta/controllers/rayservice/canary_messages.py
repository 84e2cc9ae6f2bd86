"""What the condition UpgradeInProgress says about a canary: its step, its shares, and what it waits for."""

from __future__ import annotations

from manta.api.ray.service import RayServiceStatuses
from manta.controllers.rayservice.facts.canary import (
    Progress,
    canary_obstacle,
    hold,
    next_weight,
    pods_behind_service,
    progress,
    worker_groups,
)
from manta.controllers.rayservice.facts.clusters import is_rolling_back
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.rules.canary import Group, grown, part, share, shrunk


def canary_message(snapshot: ServiceSnapshot, status: RayServiceStatuses) -> str:
    new = status.pending_service_status.ray_cluster_name
    if snapshot.pending is None:
        return f"RayCluster {new} is about to be created"
    if snapshot.active is None:
        return f"RayCluster {new} will serve as soon as it can"
    if is_rolling_back(snapshot):
        return f"all requests go to RayCluster {snapshot.active_name}; RayCluster {new} is deleted later"
    now, groups = progress(snapshot), worker_groups(snapshot)
    waits_for = _waits_for(snapshot, now, groups)
    return (
        f"step {now.number} of {now.of} ({now.weight} %): {_shares(snapshot, groups)}; {waits_for}"
    )


def rejected_message(snapshot: ServiceSnapshot, why: str) -> str:
    """For a service whose canary was rolled back: it keeps the old cluster."""
    again = (
        f"edit the spec, or try again with `manta upgrade resume {snapshot.service.metadata.name}`"
    )
    return f"the canary of this spec was rolled back: {why}; {again}"


def _shares(snapshot: ServiceSnapshot, groups: tuple[Group, ...]) -> str:
    old, new = pods_behind_service(snapshot)
    workers = ", ".join(
        f"{one.name} {one.new} new of {one.full_new} and {one.old} old of {one.full_old}"
        for one in groups
    )
    behind = f"{new} of {old + new} Pods that take requests are new ({share(old, new)} %)"
    return f"{behind}; workers: {workers}" if workers else behind


def _waits_for(snapshot: ServiceSnapshot, now: Progress, groups: tuple[Group, ...]) -> str:
    """The same text until something changes."""
    obstacle = canary_obstacle(snapshot)
    if obstacle:
        return obstacle
    if now.reached_at is not None:
        after = next_weight(snapshot, now)
        return hold(snapshot, now) or f"next, RayCluster {snapshot.pending_name} gets {after} %"
    for one in groups:
        if one.new_ready < one.new:
            return f"waiting for workers of group {one.name} of RayCluster {snapshot.pending_name}"
        short = one.new < part(now.weight, one.full_new)
        if short and grown(one, now.weight, snapshot.canary_options) == one.new:
            held = max(one.old, one.old_held) + one.others_held
            return f"waiting for room for group {one.name}: {held} older workers hold theirs"
        if shrunk(one, now.weight) < one.old:
            return f"waiting until Serve needs fewer workers of group {one.name} of RayCluster {snapshot.active_name}"
    return "traffic moves"
