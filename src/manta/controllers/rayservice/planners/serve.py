"""Submits the Serve config: once per config and head (known bug C44).

Ray loses its applications with its head unless the GCS is fault tolerant. Each submission is recorded
(`submissions`) with its head: a restart of the operator submits nothing again, and a new head gets its
applications back. A head that knows none of its applications gets them again, with growing backoff.
"""

from __future__ import annotations

from datetime import timedelta

from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.ray.service import RayServiceStatuses, ServeSubmission
from manta.api.times import format_time, parse_optional_time
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.facts.serve import (
    DesiredServe,
    all_applications_running,
    can_submit,
    is_submitted,
    knows_any_application,
)
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot
from manta.controllers.rayservice.status_changes import ServiceStep, with_active, with_pending
from manta.controllers.rayservice.submissions import config_text, kept_config
from manta.reconcile.actions import Call, Patch
from manta.reconcile.plan import NOTHING, Plan, do
from manta.reconcile.step import Step, change_status_after
from manta.rules.serve_config import config_hash

PUT_CONFIG = "put-serve-config"
FIRST_BACKOFF = timedelta(seconds=5)
MAX_BACKOFF = timedelta(minutes=1)
"""Pause between submissions to a head that accepts a config and knows none of its applications."""


def plan_submission(
    snapshot: ServiceSnapshot, view: ClusterView, desired: DesiredServe
) -> ServiceStep:
    """Submit the config, and record it. After a crash in between, the same config is submitted again."""
    if not desired.config or not can_submit(view):
        return Step()
    if is_submitted(view, desired):
        return _after_submission(snapshot, view, desired)
    last = view.submission
    same_config = last is not None and last.config_hash == config_hash(desired.document)
    if not same_config:
        changed = " changed" if view.submitted else ""
        why = f"applications {', '.join(desired.applications)}{changed}"
        return _submit(snapshot, view, desired, why)
    if knows_any_application(view, desired):
        # The head is new and knows its applications: the GCS is fault tolerant.
        return _record(snapshot, view, _submission(snapshot, view, desired))
    return _submit(snapshot, view, desired, "its head is new and knows no application")


def _after_submission(
    snapshot: ServiceSnapshot, view: ClusterView, desired: DesiredServe
) -> ServiceStep:
    last = view.submission
    assert last is not None
    if not knows_any_application(view, desired):
        left = _backoff_left(snapshot, last)
        if left > timedelta(0):
            return Step(wake_in=left)
        why = "Serve on the same head has lost its applications"
        return _submit(snapshot, view, desired, why, again=last.resubmissions + 1)
    if last.resubmissions and all_applications_running(view, desired):
        last = _submission(snapshot, view, desired)  # resets the count of resubmissions
    return _record(snapshot, view, last)


def _backoff_left(snapshot: ServiceSnapshot, last: ServeSubmission) -> timedelta:
    """The first resubmission is immediate; the next wait 5, 10, 20 and 40 s, then 1 min each."""
    moment = parse_optional_time(last.submitted_time)
    if not last.resubmissions or moment is None:
        return timedelta(0)
    doubled: int = 2 ** min(last.resubmissions - 1, 10)
    return moment + min(FIRST_BACKOFF * doubled, MAX_BACKOFF) - snapshot.now


def _submit(
    snapshot: ServiceSnapshot, view: ClusterView, desired: DesiredServe, why: str, *, again: int = 0
) -> ServiceStep:
    cause = Cause.SUBMIT_CONFIG
    config_unchanged = kept_config(view.submission) == desired.config
    if not again and desired.percent is not None and config_unchanged:
        cause, why = Cause.MOVE_CAPACITY, f"its target capacity is {desired.percent} %"
    submission = _submission(snapshot, view, desired, again)
    arguments = {"config": desired.document, "cluster": view.name, "submission": submission}
    call = Call(PUT_CONFIG, view.cluster.metadata.key, cause, why, arguments)
    plan = (NOTHING if config_unchanged else _remove_annotations(view)).then(do(call))
    return _record(snapshot, view, submission, plan)


def _remove_annotations(view: ClusterView) -> Plan:
    """Earlier versions recorded the config in annotations. Remove them before they become wrong: if
    the CRD drops the record in the status, the next operator would believe them."""
    meta = view.cluster.metadata
    if names.ANNOTATION_SERVE_CONFIG not in meta.annotations:
        return NOTHING
    keys = (names.ANNOTATION_SERVE_CONFIG, names.ANNOTATION_SERVE_CONFIG_DOCUMENT)
    body = {"metadata": {"annotations": dict.fromkeys(keys)}}
    why = "its annotations name another Serve config than the new one"
    return do(Patch(RAY_CLUSTERS, meta.key, body, Cause.UPDATE_CLUSTER, why, uid=meta.uid))


def _submission(
    snapshot: ServiceSnapshot, view: ClusterView, desired: DesiredServe, again: int = 0
) -> ServeSubmission:
    return ServeSubmission(
        config_hash=config_hash(desired.document),
        head=view.head,
        resubmissions=again,
        submitted_time=format_time(snapshot.now),
        config=config_text(desired.config),
    )


def _record(
    snapshot: ServiceSnapshot, view: ClusterView, submission: ServeSubmission, plan: Plan = NOTHING
) -> ServiceStep:
    """Record the submission under the cluster's name: another step may promote the cluster first."""
    if snapshot.drops_submissions:
        return Step(plan)

    def change(status: RayServiceStatuses) -> RayServiceStatuses:
        if status.active_service_status.ray_cluster_name == view.name:
            return with_active(status, serve_submission=submission)
        if status.pending_service_status.ray_cluster_name == view.name:
            return with_pending(status, serve_submission=submission)
        return status

    return change_status_after(plan, change)
