"""The arithmetic of a rollout: how large each ReplicaSet should be now. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil, floor

from manta.localplane.builtin.deployment.snapshot import DeploymentSnapshot, by_age
from manta.localplane.builtin.views import Deployment, ReplicaSet

Sizes = Mapping[str, int]
"""New sizes by name of ReplicaSet; those that stay as they are are left out."""


def surge(deployment: Deployment) -> int:
    """How many Pods more than wanted there may be."""
    if deployment.spec.strategy.type == "Recreate":
        return 0
    rolling = deployment.spec.strategy.rolling_update
    return _part(rolling.max_surge if rolling else None, deployment.wanted, round_up=True)


def unavailable(deployment: Deployment) -> int:
    """How many fewer than wanted may be available. If both limits are zero, one."""
    rolling = deployment.spec.strategy.rolling_update
    part = _part(rolling.max_unavailable if rolling else None, deployment.wanted, round_up=False)
    if part == 0 and surge(deployment) == 0:
        return min(1, deployment.wanted)
    return min(part, deployment.wanted)


def _part(setting: int | str | None, of: int, *, round_up: bool) -> int:
    text = "25%" if setting is None else str(setting)
    if not text.endswith("%"):
        return int(text)
    share = int(text[:-1]) * of / 100
    return ceil(share) if round_up else floor(share)


def first_size(snapshot: DeploymentSnapshot) -> int:
    """How large a new ReplicaSet starts."""
    deployment = snapshot.deployment
    if deployment.spec.strategy.type == "Recreate":
        return deployment.wanted
    free = deployment.wanted + surge(deployment) - total(snapshot.replica_sets)
    return max(0, min(free, deployment.wanted))


def next_sizes(snapshot: DeploymentSnapshot, newest: ReplicaSet) -> Sizes:
    """The next step of a rolling update: grow the new ReplicaSet if maxSurge allows it, else shrink the old."""
    wanted = snapshot.deployment.wanted
    if newest.wanted > wanted:
        return {newest.metadata.name: wanted}
    if newest.wanted < wanted:
        free = wanted + surge(snapshot.deployment) - total(snapshot.replica_sets)
        grown = newest.wanted + max(0, min(free, wanted - newest.wanted))
        if grown != newest.wanted:
            return {newest.metadata.name: grown}
    return _shrink(snapshot, newest)


def paused_sizes(snapshot: DeploymentSnapshot) -> Sizes:
    """One active ReplicaSet takes the wanted size; of several, the largest take the difference."""
    active = [one for one in snapshot.replica_sets if one.wanted > 0]
    wanted = snapshot.deployment.wanted
    if len(active) < 2:
        target = max(active or snapshot.replica_sets, key=by_age, default=None)
        same = target is None or target.wanted == wanted
        return {} if target is None or same else {target.metadata.name: wanted}
    missing = (wanted + surge(snapshot.deployment) if wanted else 0) - total(active)
    sizes: dict[str, int] = {}
    for one in sorted(active, key=lambda it: (-it.wanted, by_age(it))):
        change = max(missing, -one.wanted)
        if change:
            sizes[one.metadata.name] = one.wanted + change
            missing -= change
    return sizes


def _shrink(snapshot: DeploymentSnapshot, newest: ReplicaSet) -> Sizes:
    older = [one for one in snapshot.older if one.wanted > 0]
    least = snapshot.deployment.wanted - unavailable(snapshot.deployment)
    not_yet = newest.wanted - (newest.status.available_replicas or 0)
    spare = total(snapshot.replica_sets) - least - max(0, not_yet)
    if spare <= 0:
        return {}
    sizes = _drop_unavailable(older, spare)
    spare_available = (
        sum(one.status.available_replicas or 0 for one in snapshot.replica_sets) - least
    )
    for one in sorted(older, key=by_age):
        size = sizes.get(one.metadata.name, one.wanted)
        taken = min(size, max(0, spare_available))
        if taken:
            sizes[one.metadata.name] = size - taken
            spare_available -= taken
    return sizes


def _drop_unavailable(older: Iterable[ReplicaSet], spare: int) -> dict[str, int]:
    """Unavailable old Pods are deleted first."""
    sizes: dict[str, int] = {}
    for one in sorted(older, key=by_age):
        unavailable = one.wanted - (one.status.available_replicas or 0)
        taken = min(max(0, unavailable), spare)
        if taken:
            sizes[one.metadata.name] = one.wanted - taken
            spare -= taken
    return sizes


def total(replica_sets: Iterable[ReplicaSet]) -> int:
    return sum(one.wanted for one in replica_sets)
