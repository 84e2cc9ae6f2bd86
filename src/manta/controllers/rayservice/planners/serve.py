"""What a cluster's Serve is told, and when: once per config and incarnation of the head (C44).

Ray forgets its applications with its head unless the GCS is fault tolerant. What was submitted is
therefore recorded (`submissions`), together with the head that it was submitted to: a restart of the
operator submits nothing again, and a new head gets its applications back. A head that knows none of
its applications is given them again for as long as that lasts, ever more slowly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.ray.service import ApplicationStatusWord, RayServiceStatuses, ServeSubmission
from manta.api.resources import PODS
from manta.api.times import format_time, parse_optional_time
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.planners.clusters import (
    is_current,
    is_rolling_back,
    is_upgrade_due,
)
from manta.controllers.rayservice.planners.readiness import obstacle, waiting_for_serve
from manta.controllers.rayservice.snapshot import ClusterSight, ServiceSnapshot, Told
from manta.controllers.rayservice.step import (
    NO_STEP,
    Change,
    Step,
    unchanged,
    with_active,
    with_pending,
)
from manta.controllers.rayservice.submissions import (
    SUBMITTED,
    SUBMITTED_DOCUMENT,
    config_text,
    kept_config,
)
from manta.reconcile.actions import Call, Patch
from manta.reconcile.plan import NOTHING, Plan, do
from manta.rules.pod_health import is_terminating
from manta.rules.serve_config import application_names, config_hash, with_capacity

PUT_CONFIG = "put-serve-config"
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=1)
"""Between submissions to a head that takes a config and yet knows no application of it."""


@dataclass(frozen=True, slots=True)
class Order:
    """What one cluster's Serve is to hold."""

    config: Mapping[str, Any]
    percent: int | None = None
    """The share of its replicas that it is asked for; None: all, and not worth a word."""

    @property
    def told(self) -> Mapping[str, Any]:
        return with_capacity(self.config, self.percent)

    @property
    def applications(self) -> tuple[str, ...]:
        return application_names(self.config)


def order_for(seen: ServiceSnapshot, sight: ClusterSight, percent: int | None = None) -> Order:
    """The spec's config for the cluster that follows the spec; for the other what it has."""
    if _follows_spec(seen, sight):
        return Order(seen.serve_config, percent)
    # Without a record of what it has, only a change of capacity is worth the risk of a new config.
    unknown = seen.serve_config if seen.is_incremental else {}
    return Order(_last_config(sight) or unknown, percent)


def current_order(seen: ServiceSnapshot, sight: ClusterSight) -> Order:
    """What it should hold now, with the share that the status names while traffic is split."""
    status, percent = seen.status, None
    if seen.is_incremental:
        at_work = sight is seen.active
        side = status.active_service_status if at_work else status.pending_service_status
        percent = side.target_capacity
    return order_for(seen, sight, percent)


def _follows_spec(seen: ServiceSnapshot, sight: ClusterSight) -> bool:
    """Was this cluster made for the spec of now? What belongs to another spec must not reach it."""
    if sight is seen.pending:
        return not is_rolling_back(seen)
    if seen.pending_name:
        return is_rolling_back(seen) and is_current(seen, sight)
    return not is_upgrade_due(seen)


def _last_config(sight: ClusterSight) -> Mapping[str, Any] | None:
    return kept_config(sight.submission)


# ── submitting ───────────────────────────────────────────────────────────────────────────


def is_told(sight: ClusterSight, order: Order) -> bool:
    """Does this head's Serve hold what it should, as far as was written down?"""
    last = sight.submission
    return last is not None and (last.config_hash, last.head) == (
        config_hash(order.told),
        sight.head,
    )


def obstacle_to_serving(sight: ClusterSight, order: Order, *, is_first: bool = False) -> str:
    """What keeps this cluster from taking requests with this config; empty when nothing does."""
    found = obstacle(sight, order.applications, needs_taker=not is_first)
    if not is_told(sight, order):
        return found or waiting_for_serve(sight.name)
    last = sight.submission
    again = last.resubmissions if last is not None else 0
    if last is not None and again and can_be_told(sight) and not _knows_some(sight, order):
        times = "once" if again == 1 else f"{again} times"
        return (
            f"Serve on RayCluster {sight.name} takes the config and knows none of its"
            f" applications; it was submitted again {times}, last at {last.submitted_time}"
        )
    return found


def can_be_told(sight: ClusterSight) -> bool:
    return sight.head_is_ready and not sight.is_going and isinstance(sight.answer, Told)


def plan_submission(seen: ServiceSnapshot, sight: ClusterSight, order: Order) -> Step:
    """Submit, and record what was submitted: a crash in between submits the same again."""
    if not order.config or not can_be_told(sight):
        return NO_STEP
    if is_told(sight, order):
        return _after_submission(seen, sight, order)
    last = sight.submission
    same_config = last is not None and last.config_hash == config_hash(order.told)
    if same_config and _knows_some(sight, order):
        # The head is new, and its memory is not: the GCS is fault tolerant.
        return Step(change=_recorded(seen, sight, _submission(seen, sight, order)))
    why = "its head is new and knows no application" if same_config else _what_is_new(sight, order)
    return _submit(seen, sight, order, why)


def _after_submission(seen: ServiceSnapshot, sight: ClusterSight, order: Order) -> Step:
    assert sight.submission is not None
    again = sight.submission.resubmissions
    if not _knows_some(sight, order):
        left = _pause_left(seen, sight.submission)
        if left > timedelta(0):
            return Step(timer=left)
        why = "Serve on the same head has lost its applications"
        return _submit(seen, sight, order, why, again=again + 1)
    last = sight.submission
    if again and runs_all(sight, order):  # they run: the count of resubmissions is reset
        last = _submission(seen, sight, order)
    return Step(change=_recorded(seen, sight, last))


def _pause_left(seen: ServiceSnapshot, last: ServeSubmission) -> timedelta:
    """The first time at once, then after 5, 10, 20 and 40 seconds, then every minute."""
    moment = parse_optional_time(last.submitted_time)
    if not last.resubmissions or moment is None:
        return timedelta(0)
    doubled: int = 2 ** min(last.resubmissions - 1, 10)
    pause = min(FIRST_PAUSE * doubled, LONGEST_PAUSE)
    return moment + pause - seen.now


def _knows_some(sight: ClusterSight, order: Order) -> bool:
    assert isinstance(sight.answer, Told)
    return any(name in sight.answer.applications for name in order.applications)


def runs_all(sight: ClusterSight, order: Order) -> bool:
    return bool(order.applications) and set(order.applications) <= _running(sight)


def _running(sight: ClusterSight) -> set[str]:
    told = sight.answer.applications if isinstance(sight.answer, Told) else {}
    return {name for name, one in told.items() if one.status == ApplicationStatusWord.RUNNING}


def _submit(
    seen: ServiceSnapshot, sight: ClusterSight, order: Order, why: str, *, again: int = 0
) -> Step:
    cause = Cause.SUBMIT_CONFIG
    if not again and order.percent is not None and _last_config(sight) == order.config:
        cause, why = Cause.MOVE_CAPACITY, f"it is asked for {order.percent} % of its replicas"
    submission = _submission(seen, sight, order, again)
    arguments = {"config": order.told, "cluster": sight.name, "submission": submission}
    call = Call(PUT_CONFIG, sight.cluster.metadata.key, cause, why, arguments)
    plan = _remove_annotations(sight, order).then(do(call))
    return Step(plan, _recorded(seen, sight, submission))


def _remove_annotations(sight: ClusterSight, order: Order) -> Plan:
    """Those of an earlier version, before another config makes them false: where the CRD drops the
    record, the next operator would believe them."""
    meta = sight.cluster.metadata
    if SUBMITTED not in meta.annotations or _last_config(sight) == order.config:
        return NOTHING
    body = {"metadata": {"annotations": {SUBMITTED: None, SUBMITTED_DOCUMENT: None}}}
    why = "another Serve config is submitted than its annotations say"
    return do(Patch(RAY_CLUSTERS, meta.key, body, Cause.UPDATE_CLUSTER, why, uid=meta.uid))


def _submission(
    seen: ServiceSnapshot, sight: ClusterSight, order: Order, again: int = 0
) -> ServeSubmission:
    return ServeSubmission(
        config_hash=config_hash(order.told),
        head=sight.head,
        resubmissions=again,
        submitted_time=format_time(seen.now),
        config=config_text(order.config),
    )


def _recorded(seen: ServiceSnapshot, sight: ClusterSight, submission: ServeSubmission) -> Change:
    """By the cluster's name: another step may promote it before this one is written down."""
    if seen.drops_submissions:
        return unchanged

    def change(status: RayServiceStatuses) -> RayServiceStatuses:
        if status.active_service_status.ray_cluster_name == sight.name:
            return with_active(status, serve_submission=submission)
        if status.pending_service_status.ray_cluster_name == sight.name:
            return with_pending(status, serve_submission=submission)
        return status

    return change


def _what_is_new(sight: ClusterSight, order: Order) -> str:
    applications = ", ".join(order.applications)
    return f"applications {applications}" + (" changed" if sight.submitted else "")


# ── the head's label ─────────────────────────────────────────────────────────────────────


def plan_head_label(seen: ServiceSnapshot, sight: ClusterSight | None) -> Step:
    """The head takes requests while its own proxy answers (C53), unless the user forbids it."""
    if sight is None or sight.head_pod is None or is_terminating(sight.head_pod):
        return NO_STEP
    excluded = seen.spec.exclude_head_pod_from_serve_svc
    if not excluded and sight.proxy_answers is None:
        return NO_STEP
    serves = not excluded and sight.proxy_answers is True and _has_something_to_serve(seen, sight)
    wanted = names.SERVE_TRUE if serves else names.SERVE_FALSE
    meta = sight.head_pod.metadata
    if meta.labels.get(names.LABEL_SERVE) == wanted:
        return NO_STEP
    why = "its Serve proxy answers" if serves else "its Serve proxy does not answer"
    if excluded:
        why = "spec.excludeHeadPodFromServeSvc is set"
    body = {"metadata": {"labels": {names.LABEL_SERVE: wanted}}}
    patch = Patch(PODS, meta.key, body, Cause.HEAD_LABEL, why, uid=meta.uid)
    return Step(do(patch, independent=True))


def _has_something_to_serve(seen: ServiceSnapshot, sight: ClusterSight) -> bool:
    """A proxy may answer before any application does. Once in service, a head stays there while
    its applications are changed; a head that lost them all leaves."""
    assert sight.head_pod is not None
    is_in_service = sight.head_pod.metadata.labels.get(names.LABEL_SERVE) == names.SERVE_TRUE
    if not isinstance(sight.answer, Told):
        return is_in_service  # a proxy answers before anybody knows what is behind it
    known = set(sight.answer.applications)
    # What another operator gave it before we took over is not written down: then anything counts.
    wanted = set(order_for(seen, sight).applications) or known
    return bool(wanted & (known if is_in_service else _running(sight)))
