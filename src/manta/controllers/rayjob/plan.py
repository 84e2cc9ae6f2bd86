"""One stage, one function; nothing else is decided here."""

from __future__ import annotations

from collections.abc import Callable

from manta.api.core import Service
from manta.api.ray.job import JobDeploymentStatus as Stage
from manta.api.ray.job import JobFailedReason
from manta.api.resources import SERVICES
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.gang import plan_gang
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.stages.beginning import begin, recover
from manta.controllers.rayjob.stages.ending import finish, leave, rest, retry, suspend
from manta.controllers.rayjob.stages.initializing import initialize, wait_for_user
from manta.controllers.rayjob.stages.running import run
from manta.controllers.rayjob.step import Step, move
from manta.manifests.containers import Json
from manta.manifests.job_cluster import build_job_head_service
from manta.manifests.passed_on import annotation_changes
from manta.reconcile.actions import Action, Create, Patch
from manta.reconcile.plan import Plan, do
from manta.rules.validation.violation import sentence

STAGES: dict[Stage, Callable[[JobSnapshot], Step]] = {
    Stage.NEW: begin,
    Stage.INITIALIZING: initialize,
    Stage.WAITING: wait_for_user,
    Stage.RUNNING: run,
    Stage.SUSPENDING: suspend,
    Stage.SUSPENDED: rest,
    Stage.RETRYING: retry,
    Stage.COMPLETE: finish,
    Stage.FAILED: finish,
    Stage.VALIDATION_FAILED: recover,
}

WITH_HEAD_SERVICE = (Stage.INITIALIZING, Stage.WAITING, Stage.RUNNING)

NOT_VALIDATED = (Stage.SUSPENDING, Stage.RETRYING, Stage.COMPLETE, Stage.FAILED)
"""What is given back, or over, is not taken up again because of an edit of the spec."""


def step(seen: JobSnapshot) -> Step:
    if seen.job.metadata.deletion_timestamp is not None:
        return leave(seen)
    if seen.violations and seen.stage not in NOT_VALIDATED:
        message = sentence(seen.violations)
        reason = JobFailedReason.VALIDATION_FAILED
        return move(seen, Stage.VALIDATION_FAILED, reason=reason, message=message)
    return STAGES[seen.stage](seen)


def plan(seen: JobSnapshot) -> Plan:
    return plan_head_service(seen).then(plan_gang(seen)).then(step(seen).plan)


def plan_head_service(seen: JobSnapshot) -> Plan:
    """`<rayjob>-head-svc` follows the cluster of the attempt. Nothing depends on it."""
    if seen.cluster is None or seen.stage not in WITH_HEAD_SERVICE or seen.violations:
        return Plan()
    if seen.borrows_cluster:  # it has a head Service of its own, and is not this RayJob's to name
        return Plan()
    if seen.job.metadata.deletion_timestamp is not None:
        return Plan()
    wanted = build_job_head_service(seen.job, seen.cluster, seen.settings)
    action: Action
    if seen.job_head_service is None:
        action = Create(SERVICES, wanted, Cause.HEAD_SERVICE)
    elif not seen.owns(seen.job_head_service.metadata):
        name = seen.job_head_service.metadata.name  # of a RayCluster that is called like the RayJob
        return Plan(notes=(f"Service {name} belongs to somebody else, and is left alone",))
    elif body := _head_service_drift(seen.job_head_service, wanted):
        meta = seen.job_head_service.metadata
        why = f"it now stands before RayCluster {seen.cluster.metadata.name}"
        action = Patch(SERVICES, meta.key, body, Cause.HEAD_SERVICE_DRIFT, why, uid=meta.uid)
    else:
        return Plan()
    return do(action, independent=True)


def _head_service_drift(live: Service, wanted: Json) -> Json:
    """What a merge patch has to say; empty when the Service is right."""
    body: Json = {}
    selector, goal = dict(live.spec.selector), wanted["spec"]["selector"]
    if selector != goal:
        body["spec"] = {"selector": {**dict.fromkeys(selector), **goal}}
    asked_for = wanted["metadata"].get("annotations") or {}
    if changes := annotation_changes(live.metadata.annotations, asked_for):
        body["metadata"] = {"annotations": changes}
    return body
