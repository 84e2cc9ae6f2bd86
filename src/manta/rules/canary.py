"""The arithmetic of a canary: how many workers each cluster has, and which share of the traffic. Pure.

The new cluster grows into the room that `maxSurge` leaves beside the old one; the old one shrinks by what the new
one already serves. So no group ever holds more than its size plus the surge, and the two together serve as much as
one did before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from manta.api.ray.service import CanaryUpgradeOptions
from manta.api.times import bounded_seconds

FULL = 100
"""Percent. The weight that follows the last step."""
DEFAULT_DEADLINE_SECONDS: Final = 1800
"""Seconds. A new cluster may need new nodes, a large image and a model."""


@dataclass(frozen=True, slots=True)
class Group:
    """One worker group in both clusters, in replicas."""

    name: str
    full_old: int = 0
    """Its size in the old cluster before the upgrade; 0 if the group is new."""
    full_new: int = 0
    """Its size in the new cluster after the upgrade; 0 if the group is dropped."""
    old: int = 0
    """What the old cluster is asked for now."""
    new: int = 0
    old_held: int = 0
    """Replicas that have a Pod, also one that terminates: it still holds its GPUs."""
    new_held: int = 0
    new_ready: int = 0
    others_held: int = 0
    """Replicas of clusters that go: of an earlier upgrade, or of one that was rolled back."""

    @property
    def size(self) -> int:
        return max(self.full_old, self.full_new)


def weights(options: CanaryUpgradeOptions) -> tuple[int, ...]:
    """The weights of all steps, with the last one."""
    return (*(step.weight for step in options.steps), FULL)


def step_at(options: CanaryUpgradeOptions, weight: int | None) -> int:
    """The number of the step at this weight, from 1. If the user removed it from the spec, the next one."""
    known = weights(options)
    return 1 + next(at for at, one in enumerate(known) if one >= min(weight or 0, FULL))


def surge(options: CanaryUpgradeOptions, size: int) -> int:
    """The replicas of a group beyond its size: a percentage is rounded up, and is at least one."""
    chosen = options.max_surge
    if isinstance(chosen, str):
        percent = int(chosen.removesuffix("%"))
        return max(1, math.ceil(size * percent / FULL)) if chosen.endswith("%") else percent
    return 1 if chosen is None else chosen


def progress_deadline(options: CanaryUpgradeOptions) -> timedelta:
    chosen = options.progress_deadline_seconds
    return bounded_seconds(DEFAULT_DEADLINE_SECONDS if chosen is None else chosen)


def part(weight: int, size: int) -> int:
    """This percentage of so many replicas, rounded up."""
    return math.ceil(weight * size / FULL)


def room(group: Group, options: CanaryUpgradeOptions, *, beside: int) -> int:
    """The replicas that one cluster may hold beside so many of the other."""
    return group.size + surge(options, group.size) - group.others_held - beside


def grown(group: Group, weight: int, options: CanaryUpgradeOptions) -> int:
    """The replicas of the new cluster: as many as the weight needs and the surge allows, never fewer
    than it has."""
    surplus = max(0, group.new_held - group.new)  # its own Pods that terminate
    most = room(group, options, beside=max(group.old, group.old_held) + surplus)
    return max(group.new, min(part(weight, group.full_new), most))


def shrunk(group: Group, weight: int) -> int:
    """The replicas of the old cluster, once what the new one has takes requests. It keeps one to the end."""
    serves = group.full_old
    if group.full_new:
        serves -= min(group.new_ready, group.full_new) * group.full_old // group.full_new
    wanted = max(part(FULL - weight, group.full_old), serves if group.full_new else 0, 1)
    return min(group.old, wanted)


def restored(group: Group, options: CanaryUpgradeOptions) -> int:
    """The replicas of the old cluster while the new one goes."""
    surplus = max(0, group.old_held - group.old)  # its own Pods that terminate
    most = room(group, options, beside=max(group.new, group.new_held) + surplus)
    return max(group.old, min(group.full_old, most))


def capacity(counts: Iterable[tuple[int, int]]) -> int:
    """The percentage of its Serve replicas for which a cluster has workers: (has, full) of each group."""
    return min((has * FULL // full for has, full in counts if has < full), default=FULL)


def split(weight: int, old: int, new: int) -> tuple[int, int]:
    """How many of so many Pods of each cluster take requests, so that the new ones get about this percentage.

    At least one of each takes requests. Within a point of the best share, more Pods are better.
    """
    if not old or not new:
        return old, new
    choices = [(_partner(weight, count, old), count) for count in range(1, new + 1)]
    best = min(_error(weight, one) for one in choices)
    return max((one for one in choices if _error(weight, one) <= best + 1), key=sum)


def share(old: int, new: int) -> int:
    """The percentage of requests that Pods of the new cluster get."""
    return round(new * FULL / (old + new)) if old + new else 0


def _partner(weight: int, new: int, old: int) -> int:
    """How many old Pods make `new` the wanted share."""
    if weight <= 0:
        return old
    return min(old, max(1, round(new * (FULL - weight) / weight)))


def _error(weight: int, counts: tuple[int, int]) -> float:
    old, new = counts
    return abs(weight - new * FULL / (old + new))
