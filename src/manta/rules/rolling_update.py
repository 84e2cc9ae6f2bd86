"""The options of a rolling update: from the spec, or from the annotation where the CRD lacks them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec

from manta.api.ray import names
from manta.api.ray.cluster import (
    ClusterUpgradeType,
    OnRolloutFailure,
    RayCluster,
    RollingUpdateOptions,
    WorkerGroupSpec,
)
from manta.api.times import bounded_seconds
from manta.rules.scaling import desired_replicas, max_replicas
from manta.rules.traits import autoscaling, drain_seconds

DEFAULT_DEADLINE_SECONDS: Final = 600
DEFAULT_DRAIN_SECONDS: Final = 120
_OFF = ("", "false")

Amount = int | str
"""A number of replicas, or percent of them: `2`, `"25%"`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a group may be from `replicas` during the update, in replicas. Never both 0."""

    surge: int
    unavailable: int


def rolling_update(cluster: RayCluster) -> RollingUpdateOptions | None:
    """The options; None when no rolling update is asked for. The spec wins over the annotation."""
    strategy = cluster.spec.upgrade_strategy
    if strategy is not None and strategy.type == ClusterUpgradeType.ROLLING_UPDATE:
        return strategy.rolling_update or RollingUpdateOptions()
    if strategy is not None and strategy.type is not None:
        return None
    text = cluster.metadata.annotations.get(names.ANNOTATION_ROLLING_UPDATE, "").strip()
    if text.lower() in _OFF:
        return None
    try:
        return parse_annotation(text)
    except ValueError:
        return None  # a violation says so


def parse_annotation(text: str) -> RollingUpdateOptions:
    """The options in an annotation: `true`, or JSON. Raises ValueError (msgspec's names the field)."""
    if text.strip().lower() == "true":
        return RollingUpdateOptions()
    return msgspec.json.decode(text, type=RollingUpdateOptions)


# ── limits ───────────────────────────────────────────────────────────────────────────────


def amounts(
    cluster: RayCluster, options: RollingUpdateOptions, group: WorkerGroupSpec
) -> tuple[Amount, Amount]:
    """maxSurge and maxUnavailable of a group. An absent one is 0 beside one that is given.

    The autoscaler counts every Pod that it sees as a worker, so with it nothing surges by default.
    """
    own = next((one for one in options.groups if one.group_name == group.group_name), None)
    given = own if own and (own.max_surge, own.max_unavailable) != (None, None) else options
    surge, unavailable = given.max_surge, given.max_unavailable
    if surge is None:
        surge = 0 if unavailable is not None or autoscaling(cluster.spec) else 1
    if unavailable is None:
        unavailable = 1 if is_zero(surge) else 0
    return surge, unavailable


def limits(cluster: RayCluster, options: RollingUpdateOptions, group: WorkerGroupSpec) -> Limits:
    """In replicas, as Deployments round: surge up, unavailable down, and 1 unavailable if both are 0.

    The autoscaler deletes workers above `maxReplicas`, so with it the surge ends there.
    """
    wanted = desired_replicas(group)
    more, fewer = amounts(cluster, options, group)
    surge, unavailable = _resolved(more, wanted, up=True), _resolved(fewer, wanted, up=False)
    if autoscaling(cluster.spec):
        surge = min(surge, max(max_replicas(group) - wanted, 0))
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Limits(surge, min(unavailable, wanted))


def is_zero(amount: Amount) -> bool:
    return percent(amount) == 0 if isinstance(amount, str) else amount == 0


def percent(text: str) -> int | None:
    """`25%` as 25; None if it is no percentage."""
    digits = text.removesuffix("%")
    is_one = text.endswith("%") and digits.isascii() and digits.isdecimal() and len(digits) <= 3
    return int(digits) if is_one else None


def _resolved(amount: Amount, replicas: int, *, up: bool) -> int:
    if isinstance(amount, int):
        return max(amount, 0)
    share = (percent(amount) or 0) * replicas
    return -(-share // 100) if up else share // 100


# ── times ────────────────────────────────────────────────────────────────────────────────


def min_ready(options: RollingUpdateOptions) -> timedelta:
    return bounded_seconds(options.min_ready_seconds or 0)


def progress_deadline(options: RollingUpdateOptions) -> timedelta:
    seconds = options.progress_deadline_seconds
    return bounded_seconds(DEFAULT_DEADLINE_SECONDS if seconds is None else seconds)


def rolls_back(options: RollingUpdateOptions) -> bool:
    return options.on_failure == OnRolloutFailure.ROLLBACK


def drain_budget(cluster: RayCluster) -> int:
    """How many seconds a worker of this cluster may drain: by its annotation, or as the rolling update says."""
    annotations = cluster.metadata.annotations
    if names.ANNOTATION_DRAIN_SECONDS in annotations:
        return drain_seconds(annotations)
    options = rolling_update(cluster)
    if options is None:
        return 0
    return DEFAULT_DRAIN_SECONDS if options.drain_seconds is None else options.drain_seconds
