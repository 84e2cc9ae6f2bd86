"""Plans the RayJob of a tick that is due, and the deletion of finished ones beyond the limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from manta.api.numbers import parse_count
from manta.api.ray.cronjob import RayCronJob, RayCronJobStatus
from manta.api.ray.names import (
    ANNOTATION_CRON_SCHEDULED_TIME,
    ANNOTATION_FAILED_JOBS_LIMIT,
    ANNOTATION_SUCCESSFUL_JOBS_LIMIT,
    LABEL_CRON_JOB_NAME,
)
from manta.api.ray.resources import RAY_CRON_JOBS, RAY_JOBS
from manta.api.times import format_time
from manta.controllers.raycronjob.events import Cause
from manta.controllers.raycronjob.snapshot import ChildJob, CronSnapshot
from manta.controllers.raycronjob.ticks import child_name, child_of, due_tick, last_served
from manta.reconcile.actions import Create, Delete
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.reconcile.step import Step, chain


def plan(snapshot: CronSnapshot) -> Step[RayCronJobStatus]:
    return chain((plan_refusal, plan_history, plan_suspension, plan_tick), snapshot)


def plan_refusal(snapshot: CronSnapshot) -> Plan:
    """Do nothing for an object that is being deleted, or whose spec is invalid."""
    if snapshot.cron.metadata.deletion_timestamp is not None:
        return Plan(wait=Wait("the RayCronJob is being deleted"))
    if snapshot.violations:
        return Plan(wait=Wait("the spec is invalid"))
    return NOTHING


def plan_suspension(snapshot: CronSnapshot) -> Plan:
    return Plan(wait=Wait("suspended")) if snapshot.cron.spec.suspend else NOTHING


def plan_tick(snapshot: CronSnapshot) -> Plan:
    """Create the RayJob of a tick that is due, unless an earlier reconcile did and crashed."""
    tick = due_tick(snapshot)
    if tick is None or child_of(snapshot, tick):
        return NOTHING
    why = f"tick {format_time(tick)}"
    return do(Create(RAY_JOBS, build_child(snapshot.cron, tick), Cause.TICK, why))


def plan_history(snapshot: CronSnapshot) -> Plan:
    """Delete the oldest finished RayJobs beyond the limits.

    A child whose tick is not yet in the status is kept: its name prevents a second RayJob for the
    same tick.
    """
    recorded = last_served(snapshot)
    finished = sorted(
        (
            (child.tick, child.metadata.name, child)
            for child in snapshot.children
            if child.finished and child.tick is not None and child.tick <= recorded
        ),
        reverse=True,
    )
    succeeded = [child for *_, child in finished if child.succeeded]
    failed = [child for *_, child in finished if not child.succeeded]
    keep_succeeded, keep_failed = history_limits(snapshot)
    surplus = (*_beyond(succeeded, keep_succeeded), *_beyond(failed, keep_failed))
    return do(*(_deletion(child) for child in surplus), independent=True)


def history_limits(snapshot: CronSnapshot) -> tuple[int | None, int | None]:
    """(successful, failed): from the spec, else from the annotation, else from the settings."""
    spec, annotations = snapshot.cron.spec, snapshot.cron.metadata.annotations
    return (
        _first(
            spec.successful_jobs_history_limit,
            _annotated(annotations, ANNOTATION_SUCCESSFUL_JOBS_LIMIT),
            snapshot.settings.cron_successful_history,
        ),
        _first(
            spec.failed_jobs_history_limit,
            _annotated(annotations, ANNOTATION_FAILED_JOBS_LIMIT),
            snapshot.settings.cron_failed_history,
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


def build_child(cron: RayCronJob, tick: datetime) -> dict[str, Any]:
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
            "ownerReferences": [RAY_CRON_JOBS.controller_reference(meta)],
        },
        "spec": msgspec.json.decode(cron.spec.job_template),
    }
