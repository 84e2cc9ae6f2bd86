"""What a cluster's Serve is told, and when: once per config and incarnation of the head (C44).

Ray forgets its applications with its head unless the GCS is fault tolerant. What was submitted is
therefore written on the RayCluster, together with the head that it was submitted to: a restart of
ours submits nothing again, and a new head gets its applications back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from manta.api.documents import limits
from manta.api.documents.reader import read_json
from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.ray.service import ApplicationStatusWord
from manta.api.resources import PODS
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.planners.clusters import is_rolling_back, is_upgrade_due
from manta.controllers.rayservice.planners.readiness import obstacle, waiting_for_serve
from manta.controllers.rayservice.snapshot import (
    SUBMITTED,
    SUBMITTED_DOCUMENT,
    ClusterSight,
    ServiceSnapshot,
    Told,
)
from manta.controllers.rayservice.step import NO_STEP, Step
from manta.reconcile.actions import Call, Patch
from manta.reconcile.plan import NOTHING, Plan, do
from manta.rules.pod_health import is_terminating
from manta.rules.serve_config import application_names, config_hash, with_capacity

PUT_CONFIG = "put-serve-config"
_AGAIN = "+1"
_LONGEST_DOCUMENT = 128 * 1024
"""Half of what all annotations of an object may hold together."""


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
    return Order(_document(sight) or unknown, percent)


def current_order(seen: ServiceSnapshot, sight: ClusterSight) -> Order:
    """What it should hold now, with the share that the status names while traffic is split."""
    status, percent = seen.status, None
    if seen.is_incremental:
        at_work = sight is seen.active
        side = status.active_service_status if at_work else status.pending_service_status
        percent = side.target_capacity
    return order_for(seen, sight, percent)


def _follows_spec(seen: ServiceSnapshot, sight: ClusterSight) -> bool:
    if sight is seen.pending:
        return not is_rolling_back(seen)
    if seen.pending_name:
        return is_rolling_back(seen)
    return not is_upgrade_due(seen)


def _document(sight: ClusterSight) -> Mapping[str, Any] | None:
    text = sight.cluster.metadata.annotations.get(SUBMITTED_DOCUMENT)
    try:
        found = read_json(text, limits.FIELD) if text else None
    except limits.DocumentError:
        return None
    return found if isinstance(found, dict) else None


# ── submitting ───────────────────────────────────────────────────────────────────────────


def is_told(sight: ClusterSight, order: Order) -> bool:
    """Does this head's Serve hold what it should, as far as was written down?"""
    return sight.submitted.removesuffix(_AGAIN) == _mark(sight, order)


def obstacle_to_serving(sight: ClusterSight, order: Order) -> str:
    """What keeps this cluster from taking requests with this config; empty when nothing does."""
    found = obstacle(sight, order.applications)
    if not found and not is_told(sight, order):
        return waiting_for_serve(sight.name)
    return found


def can_be_told(sight: ClusterSight) -> bool:
    return sight.head_is_ready and not sight.is_going and isinstance(sight.answer, Told)


def plan_submission(sight: ClusterSight, order: Order) -> Plan:
    """Submit, then write down what was submitted: a crash in between submits the same again."""
    if not order.config or not can_be_told(sight):
        return NOTHING
    mark = _mark(sight, order)
    if sight.submitted.removesuffix(_AGAIN) == mark:
        return _after_submission(sight, order, mark)
    same_config = sight.submitted.partition("@")[0] == mark.partition("@")[0]
    if same_config and _knows_some(sight, order):
        return do(_note(sight, order, mark))  # the head is new, and its memory is not: GCS FT
    why = "its head is new and knows no application" if same_config else _what_is_new(sight, order)
    return _submit(sight, order, mark, why)


def _after_submission(sight: ClusterSight, order: Order, mark: str) -> Plan:
    is_second = sight.submitted.endswith(_AGAIN)
    if not is_second and not _knows_some(sight, order):
        why = "Serve on the same head has lost its applications"
        return _submit(sight, order, mark + _AGAIN, why)
    if is_second and runs_all(sight, order):
        return do(_note(sight, order, mark))  # it came back: it may be lost once more
    return NOTHING


def _knows_some(sight: ClusterSight, order: Order) -> bool:
    assert isinstance(sight.answer, Told)
    return any(name in sight.answer.applications for name in order.applications)


def runs_all(sight: ClusterSight, order: Order) -> bool:
    return bool(order.applications) and set(order.applications) <= _running(sight)


def _running(sight: ClusterSight) -> set[str]:
    told = sight.answer.applications if isinstance(sight.answer, Told) else {}
    return {name for name, one in told.items() if one.status == ApplicationStatusWord.RUNNING}


def _submit(sight: ClusterSight, order: Order, mark: str, why: str) -> Plan:
    cause = Cause.SUBMIT_CONFIG
    if order.percent is not None and _document(sight) == order.config:
        cause, why = Cause.MOVE_CAPACITY, f"it is asked for {order.percent} % of its replicas"
    arguments = {"config": order.told, "cluster": sight.name}
    call = Call(PUT_CONFIG, sight.cluster.metadata.key, cause, why, arguments)
    return do(call).then(do(_note(sight, order, mark)))


def _note(sight: ClusterSight, order: Order, mark: str) -> Patch:
    document: str | None = msgspec.json.encode(order.config).decode()
    if document is not None and len(document) > _LONGEST_DOCUMENT:
        document = None
    meta = sight.cluster.metadata
    body = {"metadata": {"annotations": {SUBMITTED: mark, SUBMITTED_DOCUMENT: document}}}
    return Patch(RAY_CLUSTERS, meta.key, body, Cause.NOTE_SUBMITTED, uid=meta.uid)


def _mark(sight: ClusterSight, order: Order) -> str:
    return f"{config_hash(order.told)}@{sight.head}"


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
    if not isinstance(sight.answer, Told):
        return True
    known = set(sight.answer.applications)
    # What another operator gave it before we took over is not written down: then anything counts.
    wanted = set(order_for(seen, sight).applications) or known
    assert sight.head_pod is not None
    is_in_service = sight.head_pod.metadata.labels.get(names.LABEL_SERVE) == names.SERVE_TRUE
    return bool(wanted & (known if is_in_service else _running(sight)))
