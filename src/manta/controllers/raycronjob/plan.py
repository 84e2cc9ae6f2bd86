"""What a RayCronJob wants: the RayJob of a tick that is due, and no more history than allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from manta.api.numbers import parse_count
from manta.api.ray.names import ANNOTATION_CRON_SCHEDULED_TIME, LABEL_CRON_JOB_NAME
from manta.api.ray.resources import RAY_CRON_JOBS, RAY_JOBS
from manta.api.times import format_time
from manta.controllers.raycronjob.events import Cause
from manta.controllers.raycronjob.snapshot import ChildJob, CronJob, CronSnapshot
from manta.controllers.raycronjob.ticks import child_name, child_of, due_tick, last_served
from manta.reconcile.actions import Create, Delete
from manta.reconcile.plan import NOTHING, Plan, Wait, chain, do

SUCCESSFUL_HISTORY = "manta.ray.io/successful-jobs-history-limit"
FAILED_HISTORY = "manta.ray.io/failed-jobs-history-limit"
"""The same limits as annotations, for clusters whose CRD has no such fields (KubeRay's)."""


def plan(seen: CronSnapshot) -> Plan:
    return chain((plan_refusal, plan_history, plan_suspension, plan_tick), seen)


def plan_refusal(seen: CronSnapshot) -> Plan:
    """Nothing is done for an object that is going away, or whose spec is wrong."""
    if seen.cron.metadata.deletion_timestamp is not None:
        return Plan(wait=Wait("the RayCronJob is being deleted"))
    if seen.violations:
        return Plan(wait=Wait("the spec is invalid"))
    return NOTHING


def plan_suspension(seen: CronSnapshot) -> Plan:
    return Plan(wait=Wait("suspended")) if seen.cron.spec.suspend else NOTHING


def plan_tick(seen: CronSnapshot) -> Plan:
    """Create the RayJob of a tick that is due, unless an earlier round did so and died."""
    tick = due_tick(seen)
    if tick is None or child_of(seen, tick):
        return NOTHING
    why = f"tick {format_time(tick)}"
    return do(Create(RAY_JOBS, build_child(seen.cron, tick), Cause.TICK, why))


def plan_history(seen: CronSnapshot) -> Plan:
    """Delete the oldest finished RayJobs beyond the limits.

    A child whose tick is not recorded yet stays, finished or not: its name is what keeps the
    tick from being served twice.
    """
    recorded = last_served(seen)
    finished = sorted(
        (
            (child.tick, child.metadata.name, child)
            for child in seen.children
            if child.finished and child.tick is not None and child.tick <= recorded
        ),
        reverse=True,
    )
    won = [child for *_, child in finished if child.succeeded]
    lost = [child for *_, child in finished if not child.succeeded]
    kept, kept_failed = history_limits(seen)
    surplus = (*_beyond(won, kept), *_beyond(lost, kept_failed))
    return do(*(_deletion(child) for child in surplus), independent=True)


def history_limits(seen: CronSnapshot) -> tuple[int | None, int | None]:
    """(successful, failed): of the spec, else of the annotation, else of the operator."""
    spec, annotations = seen.cron.spec, seen.cron.metadata.annotations
    return (
        _first(
            spec.successful_jobs_history_limit,
            _annotated(annotations, SUCCESSFUL_HISTORY),
            seen.settings.cron_successful_history,
        ),
        _first(
            spec.failed_jobs_history_limit,
            _annotated(annotations, FAILED_HISTORY),
            seen.settings.cron_failed_history,
        ),
    )


def _first(*limits: int | None) -> int | None:
    return next((limit for limit in limits if limit is not None), None)


def _annotated(annotations: Mapping[str, str], name: str) -> int | None:
    return parse_count(annotations.get(name, ""))


def _beyond(newest_first: Sequence[ChildJob], limit: int | None) -> Sequence[ChildJob]:
    return () if limit is None else newest_first[limit:]


def _deletion(child: ChildJob) -> Delete:
    meta = child.metadata
    return Delete(RAY_JOBS, meta.key, meta.uid, Cause.HISTORY, "beyond the history limit")


def build_child(cron: CronJob, tick: datetime) -> dict[str, Any]:
    """The RayJob of one tick. Its name follows from the tick, to the minute."""
    meta = cron.metadata
    return {
        "apiVersion": RAY_JOBS.api_version,
        "kind": RAY_JOBS.kind,
        "metadata": {
            "name": child_name(cron, tick),
            "namespace": meta.namespace,
            "labels": {LABEL_CRON_JOB_NAME: meta.name},
            "annotations": {ANNOTATION_CRON_SCHEDULED_TIME: format_time(tick)},
            "ownerReferences": [
                {
                    "apiVersion": RAY_CRON_JOBS.api_version,
                    "kind": RAY_CRON_JOBS.kind,
                    "name": meta.name,
                    "uid": meta.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": msgspec.json.decode(cron.spec.job_template),
    }
