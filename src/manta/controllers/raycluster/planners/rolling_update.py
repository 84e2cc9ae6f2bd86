"""Replaces outdated Pods, group by group and the head last.

As a Deployment does: new workers first as far as `maxSurge` allows, then outdated ones are deleted as far as
`maxUnavailable` does. A deleted worker drains in Ray before it ends (`manifests/draining.py`), and counts until
it is gone, so that a group never holds more Pods than `replicas` and the surge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from manta.api.resources import PODS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import may_choose_pods
from manta.controllers.raycluster.planners.multi_host_group import grow_replicas, plan_broken
from manta.controllers.raycluster.planners.pod_deletions import deletions
from manta.controllers.raycluster.planners.scale_down_order import readiness_rank
from manta.controllers.raycluster.planners.worker_group import (
    grow,
    more_to_create,
    plan_removed_groups,
)
from manta.controllers.raycluster.rollout.state import Rollout
from manta.controllers.raycluster.rollout.units import GroupRollout, Unit, unit_size
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.actions import Create, Delete
from manta.reconcile.plan import MAX_CREATIONS, NOTHING, Plan, Wait, do, merge


def plan_rolling_groups(snapshot: ClusterSnapshot, rollout: Rollout) -> Plan:
    """All groups grow and shrink as ever; workers are replaced in one group only, and not while a broken head is."""
    plans = [plan_removed_groups(snapshot)]
    left, turn = MAX_CREATIONS, None if rollout.head_is_broken else rollout.turn
    for one in rollout.groups:
        may_replace = rollout.may_replace and turn is not None and one.name == turn.name
        plan = _plan_group(snapshot, rollout, one, may_replace=may_replace, at_most=left)
        created = sum(isinstance(action, Create) for action in plan.actions)
        left = max(left - created, 0)
        plans.append(plan)
    return merge(plans)


def plan_rolling_head(rollout: Rollout) -> Plan:
    """Delete the outdated head: after all workers, or at once if none can join it. `plan_head_pod` creates the
    next one when it is gone."""
    if rollout.head is None or not rollout.head_is_outdated:
        return NOTHING
    if rollout.turn is not None and not rollout.head_is_broken:
        return NOTHING
    if not rollout.may_replace or rollout.head_awaits_consent:
        return NOTHING
    meta, why = rollout.head.metadata, f"revision {_number(rollout)} replaces it"
    return do(Delete(PODS, meta.key, meta.uid, Cause.ROLLED_HEAD, why), wait=Wait(why))


def _number(rollout: Rollout) -> int:
    target = rollout.revisions.target
    return target.revision if target is not None else 0


def _plan_group(
    snapshot: ClusterSnapshot,
    rollout: Rollout,
    one: GroupRollout,
    *,
    may_replace: bool,
    at_most: int,
) -> Plan:
    if one.group.suspend:
        pods = snapshot.workers_by_group.get(one.name, ())
        return do(*deletions(pods, Cause.GROUP_SUSPENDED, "its worker group is suspended"))
    broken = merge(
        plan_broken(
            snapshot, {unit.name: unit.pods for unit in one.units if unit.hosts == size}, size
        )
        for size in {unit.hosts for unit in one.units}
    )
    if broken.stages:
        return broken
    asked_for = set(one.group.scale_strategy.workers_to_delete)
    named = [unit for unit in one.units if asked_for & {pod.metadata.name for pod in unit.pods}]
    kept = replace(one, units=tuple(unit for unit in one.units if unit not in named))
    going = _delete(named, Cause.NAMED_FOR_DELETION, "named in workersToDelete")
    grown = _create(snapshot, kept, one, may_replace=may_replace, at_most=at_most)
    if may_replace:
        leaving = _delete(
            to_replace(kept), Cause.ROLLED_WORKER, f"revision {_number(rollout)} replaces it"
        )
    else:
        leaving = NOTHING
    return merge([going, grown, leaving, _shrink(snapshot, kept, may_replace=may_replace), broken])


# ── how many ─────────────────────────────────────────────────────────────────────────────


def to_create(kept: GroupRollout, occupied: int, *, may_replace: bool) -> int:
    """How many units to create. `occupied` are all that exist, also those that are being deleted."""
    if not may_replace:
        return max(kept.wanted - occupied, 0)
    room = kept.wanted + kept.limits.surge - occupied
    return max(min(room, kept.wanted - len(kept.updated)), 0)


def to_replace(kept: GroupRollout) -> list[Unit]:
    """Outdated units to delete now: unavailable ones first, then the oldest.

    Enough available units stay, and a new unit that is not available yet keeps an old one alive.
    """
    least = kept.wanted - kept.limits.unavailable
    starting = sum(not one.available for one in kept.updated)
    most, spare = len(kept.living) - least - starting, kept.available - least
    chosen: list[Unit] = []
    outdated = [one for one in kept.living if one.outdated]
    for one in sorted(outdated, key=lambda unit: (unit.available, unit.age)):
        if len(chosen) >= most or (one.available and spare <= 0):
            break
        spare -= one.available
        chosen.append(one)
    return chosen


def surplus(kept: GroupRollout, *, may_replace: bool) -> int:
    """Units above what the group may have. Outdated ones of a group in its turn are replaced, not surplus."""
    outdated = sum(one.outdated for one in kept.living)
    if may_replace and outdated:
        return 0
    is_mixed = outdated > 0 and len(kept.updated) > 0
    return len(kept.living) - kept.wanted - (kept.limits.surge if is_mixed else 0)


# ── actions ──────────────────────────────────────────────────────────────────────────────


def _create(
    snapshot: ClusterSnapshot,
    kept: GroupRollout,
    whole: GroupRollout,
    *,
    may_replace: bool,
    at_most: int,
) -> Plan:
    count = to_create(kept, len(whole.units), may_replace=may_replace)
    size = unit_size(snapshot, kept.group)
    allowed = min(count, -(-at_most // max(size, 1)))
    if allowed <= 0:
        return NOTHING
    pods = [pod for one in whole.units for pod in one.pods]
    make = grow_replicas if size > 1 else grow
    plan = make(snapshot, kept.group, pods, allowed)
    return replace(plan, unfinished=more_to_create(kept.name, count - allowed))


def _shrink(snapshot: ClusterSnapshot, kept: GroupRollout, *, may_replace: bool) -> Plan:
    count = surplus(kept, may_replace=may_replace)
    if count <= 0:
        return NOTHING
    if not may_choose_pods(snapshot):
        return Plan(notes=(f"{count} surplus Pods of {kept.name} left to the autoscaler",))
    chosen = sorted(kept.living, key=_scale_down_key)[:count]
    return _delete(chosen, Cause.SCALE_DOWN, f"group {kept.name} wants {kept.wanted}")


def _scale_down_key(unit: Unit) -> tuple[bool, int, tuple[int, ...], str]:
    """Outdated ones first, then the least useful, then the newest."""
    useful = min(readiness_rank(pod) for pod in unit.pods)
    newest = tuple(-ord(letter) for letter in unit.age[0])
    return not unit.outdated, useful, newest, unit.name


def _delete(units: Sequence[Unit], cause: Cause, why: str) -> Plan:
    return do(*deletions((pod for one in units for pod in one.pods), cause, why))
