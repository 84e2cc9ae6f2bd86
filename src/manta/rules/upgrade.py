"""The arithmetic of an incremental upgrade: capacity and traffic, one step at a time. Pure.

Capacity (Serve's target capacity) and traffic (weights of the HTTPRoute) move from one cluster to the other in
turn, by at most `maxSurge` and `stepSize`: the total capacity stays between 100 and 100 + maxSurge percent, and
traffic never exceeds the capacity of a cluster. A rollback takes the same steps in the other direction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Share:
    """One cluster's share of capacity and traffic, in percent."""

    capacity: int
    traffic: int
    moved_at: datetime | None = None
    """When its traffic last changed."""


@dataclass(frozen=True, slots=True)
class RolloutOptions:
    max_surge: int
    step_size: int
    interval: timedelta


@dataclass(frozen=True, slots=True)
class Rollout:
    """The state of an upgrade from `active` to `pending`."""

    active: Share
    pending: Share
    options: RolloutOptions
    rolling_back: bool = False

    @property
    def is_finished(self) -> bool:
        """The pending cluster has all traffic and can be promoted."""
        return not self.rolling_back and self.active.capacity == 0 and self.pending.traffic == 100

    @property
    def is_rolled_back(self) -> bool:
        return (
            self.rolling_back
            and (self.active.capacity, self.active.traffic) == (100, 100)
            and (self.pending.capacity, self.pending.traffic) == (0, 0)
        )


def next_capacity(rollout: Rollout) -> Rollout:
    """Increase the capacity of one cluster, or decrease that of the other; no change while traffic moves."""
    surge = rollout.options.max_surge
    gaining, losing = _roles(rollout)
    if gaining.capacity != gaining.traffic:
        return rollout
    if gaining.capacity + losing.capacity > 100:
        losing = replace(losing, capacity=max(0, losing.capacity - surge))
    else:
        gaining = replace(gaining, capacity=min(100, gaining.capacity + surge))
    return _with_roles(rollout, gaining, losing)


def next_traffic(rollout: Rollout, now: datetime, *, gaining_is_ready: bool) -> Rollout:
    """Move one step of traffic to the gaining cluster, once the interval has passed."""
    gaining, losing = _roles(rollout)
    if gaining.traffic == gaining.capacity:
        return rollout
    # A rollback does not wait for readiness: the old cluster served before.
    if not gaining_is_ready and not rollout.rolling_back:
        return rollout
    if gaining.moved_at is not None and now - gaining.moved_at < rollout.options.interval:
        return rollout
    share = min(100, gaining.traffic + rollout.options.step_size, gaining.capacity)
    gaining = replace(gaining, traffic=share, moved_at=now)
    losing = replace(losing, traffic=100 - share, moved_at=now)
    return _with_roles(rollout, gaining, losing)


def due_in(rollout: Rollout, now: datetime) -> timedelta | None:
    """How long until traffic may move again; None if no move of traffic is pending."""
    gaining, _ = _roles(rollout)
    if gaining.traffic == gaining.capacity or gaining.moved_at is None:
        return None
    return max(timedelta(0), gaining.moved_at + rollout.options.interval - now)


def _roles(rollout: Rollout) -> tuple[Share, Share]:
    """(the cluster that gains, the cluster that loses)."""
    if rollout.rolling_back:
        return rollout.active, rollout.pending
    return rollout.pending, rollout.active


def _with_roles(rollout: Rollout, gaining: Share, losing: Share) -> Rollout:
    if rollout.rolling_back:
        return replace(rollout, active=gaining, pending=losing)
    return replace(rollout, active=losing, pending=gaining)
