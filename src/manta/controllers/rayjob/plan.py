"""Plans a RayJob: one function for each stage, and the objects beside it."""

from __future__ import annotations

from collections.abc import Callable

from manta.api.core import Service
from manta.api.ray.job import JobDeploymentStatus as Stage
from manta.api.ray.job import JobFailedReason
from manta.api.resources import SERVICES
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.facts import ACTIVE
from manta.controllers.rayjob.gang import plan_gang
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.stages.finished import finalize, finish
from manta.controllers.rayjob.stages.initializing import initialize, wait_for_user
from manta.controllers.rayjob.stages.new import recover, start_attempt
from manta.controllers.rayjob.stages.release import retry, stay_suspended, suspend
from manta.controllers.rayjob.stages.running import run
from manta.controllers.rayjob.transitions import JobStep, move
from manta.manifests.containers import Json
from manta.manifests.job_cluster import build_job_head_service
from manta.manifests.propagated_metadata import annotation_changes
from manta.reconcile.actions import Action, Create, Patch
from manta.reconcile.plan import NOTHING, Plan, do
from manta.reconcile.step import join
from manta.rules.validation.violation import violations_message

STAGES: dict[Stage, Callable[[JobSnapshot], JobStep]] = {
    Stage.NEW: start_attempt,
    Stage.INITIALIZING: initialize,
    Stage.WAITING: wait_for_user,
    Stage.RUNNING: run,
    Stage.SUSPENDING: suspend,
    Stage.SUSPENDED: stay_suspended,
    Stage.RETRYING: retry,
    Stage.COMPLETE: finish,
    Stage.FAILED: finish,
    Stage.VALIDATION_FAILED: recover,
}

NOT_VALIDATED = (Stage.SUSPENDING, Stage.RETRYING, Stage.COMPLETE, Stage.FAILED)
"""An edit that makes the spec invalid does not bring these stages back."""


def plan(snapshot: JobSnapshot) -> JobStep:
    return join((plan_head_service(snapshot), plan_gang(snapshot), stage_step(snapshot)))


def stage_step(snapshot: JobSnapshot) -> JobStep:
    if snapshot.job.metadata.deletion_timestamp is not None:
        return finalize(snapshot)
    if snapshot.violations and snapshot.stage not in NOT_VALIDATED:
        message, reason = violations_message(snapshot.violations), JobFailedReason.VALIDATION_FAILED
        return move(Stage.VALIDATION_FAILED, reason=reason, message=message)
    return STAGES[snapshot.stage](snapshot)


def plan_head_service(snapshot: JobSnapshot) -> Plan:
    """Point `<rayjob>-head-svc` at the cluster of this attempt. Nothing depends on it.

    A borrowed cluster has a head Service of its own, so it gets none.
    """
    deleted = snapshot.job.metadata.deletion_timestamp is not None
    if snapshot.stage not in ACTIVE or snapshot.violations or deleted:
        return NOTHING
    if snapshot.cluster is None or snapshot.borrows_cluster:
        return NOTHING
    wanted = build_job_head_service(snapshot.job, snapshot.cluster, snapshot.settings)
    action: Action
    if snapshot.job_head_service is None:
        action = Create(SERVICES, wanted, Cause.HEAD_SERVICE)
    elif not snapshot.owns(snapshot.job_head_service.metadata):
        name = snapshot.job_head_service.metadata.name  # a RayCluster has the name of the RayJob
        return Plan(notes=(f"Service {name} belongs to another owner and is left alone",))
    elif body := _head_service_drift(snapshot.job_head_service, wanted):
        meta = snapshot.job_head_service.metadata
        why = f"it now selects RayCluster {snapshot.cluster.metadata.name}"
        action = Patch(SERVICES, meta.key, body, Cause.HEAD_SERVICE_DRIFT, why, uid=meta.uid)
    else:
        return NOTHING
    return do(action, independent=True)


def _head_service_drift(live: Service, wanted: Json) -> Json:
    """The merge patch that corrects the Service; empty when nothing differs."""
    body: Json = {}
    selector, goal = dict(live.spec.selector), wanted["spec"]["selector"]
    if selector != goal:
        body["spec"] = {"selector": {**dict.fromkeys(selector), **goal}}
    annotations = wanted["metadata"].get("annotations") or {}
    if changes := annotation_changes(live.metadata.annotations, annotations):
        body["metadata"] = {"annotations": changes}
    return body
