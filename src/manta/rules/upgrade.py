"""The arithmetic of an incremental upgrade: capacity and traffic, one step at a time. Pure.

Two clusters stand side by side. Capacity (what Serve is asked to hold) and traffic (the weights of
the HTTPRoute) move in turn, never further than `maxSurge` and `stepSize` allow, so that the sum of
capacity stays between 100 and 100 + maxSurge and traffic never exceeds the capacity behind it.
A rollback is the same walk in the other direction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Share:
    """One cluster's part: percent of capacity asked for, percent of traffic sent."""

    capacity: int
    traffic: int
    moved_at: datetime | None = None
    """When its traffic last changed."""


@dataclass(frozen=True, slots=True)
class Pace:
    max_surge: int
    step_size: int
    interval: timedelta


@dataclass(frozen=True, slots=True)
class Rollout:
    """Where an upgrade stands. `active` serves now, `pending` is to take over."""

    active: Share
    pending: Share
    pace: Pace
    rolling_back: bool = False

    @property
    def is_finished(self) -> bool:
        """The pending cluster has everything: it can be promoted."""
        return not self.rolling_back and self.active.capacity == 0 and self.pending.traffic == 100

    @property
    def is_rolled_back(self) -> bool:
        return (
            self.rolling_back
            and (self.active.capacity, self.active.traffic) == (100, 100)
            and (self.pending.capacity, self.pending.traffic) == (0, 0)
        )


def begin(pace: Pace) -> Rollout:
    return Rollout(Share(100, 100), Share(0, 0), pace)


def next_capacity(rollout: Rollout) -> Rollout:
    """Ask one cluster for more, or the other for less; wait while traffic still moves."""
    surge = rollout.pace.max_surge
    gaining, losing = _roles(rollout)
    if gaining.capacity != gaining.traffic:
        return rollout
    if gaining.capacity + losing.capacity > 100:
        losing = replace(losing, capacity=max(0, losing.capacity - surge))
    else:
        gaining = replace(gaining, capacity=min(100, gaining.capacity + surge))
    return _with_roles(rollout, gaining, losing)


def next_traffic(rollout: Rollout, now: datetime, *, gaining_is_ready: bool) -> Rollout:
    """Move one step of traffic to the cluster that gains, once the interval has passed."""
    gaining, losing = _roles(rollout)
    if gaining.traffic == gaining.capacity:
        return rollout
    # While rolling back the old cluster is taken as it is: it served before.
    if not gaining_is_ready and not rollout.rolling_back:
        return rollout
    if gaining.moved_at is not None and now - gaining.moved_at < rollout.pace.interval:
        return rollout
    share = min(100, gaining.traffic + rollout.pace.step_size, gaining.capacity)
    gaining = replace(gaining, traffic=share, moved_at=now)
    losing = replace(losing, traffic=100 - share, moved_at=now)
    return _with_roles(rollout, gaining, losing)


def due_in(rollout: Rollout, now: datetime) -> timedelta | None:
    """How long until traffic may move again; None when it is not traffic that is waited for."""
    gaining, _ = _roles(rollout)
    if gaining.traffic == gaining.capacity or gaining.moved_at is None:
        return None
    return max(timedelta(0), gaining.moved_at + rollout.pace.interval - now)


def _roles(rollout: Rollout) -> tuple[Share, Share]:
    """(the cluster that gains, the cluster that loses)."""
    if rollout.rolling_back:
        return rollout.active, rollout.pending
    return rollout.pending, rollout.active


def _with_roles(rollout: Rollout, gaining: Share, losing: Share) -> Rollout:
    if rollout.rolling_back:
        return replace(rollout, active=gaining, pending=losing)
    return replace(rollout, active=losing, pending=gaining)
