"""What a Deployment does with its ReplicaSets. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from manta.api.resources import DEPLOYMENTS, REPLICA_SETS
from manta.api.well_known import (
    ANNOTATION_DESIRED_REPLICAS,
    ANNOTATION_LAST_APPLIED,
    ANNOTATION_MAX_REPLICAS,
    ANNOTATION_REVISION,
)
from manta.localplane.builtin.deployment import rollout
from manta.localplane.builtin.deployment.snapshot import (
    HASH_LABEL,
    DeploymentSnapshot,
    bare_template,
    revision,
    template_hash,
)
from manta.localplane.builtin.deployment.status import is_complete, progress_left
from manta.localplane.builtin.views import Deployment, ReplicaSet
from manta.reconcile.actions import Create, Delete, Patch
from manta.reconcile.causes import ActionCause, Reasons
from manta.reconcile.plan import NOTHING, Plan, Wait, do

_SCALED = "ScalingReplicaSet"


class Cause(ActionCause):
    NEW_TEMPLATE = (
        Reasons(
            "Scale",
            _SCALED,
            "ReplicaSetCreateError",
            "Scaled up replica set {key.name} {why}",
            "Failed to create new replica set: {error}",
        ),
        "the template has no ReplicaSet yet",
    )
    SCALE_UP = (
        Reasons("Scale", _SCALED, done_note="Scaled up replica set {key.name} {why}"),
        "the rollout continues",
    )
    SCALE_DOWN = (
        Reasons("Scale", _SCALED, done_note="Scaled down replica set {key.name} {why}"),
        "the rollout continues, or fewer are wanted",
    )
    REVISION = Reasons("Annotate"), "the present ReplicaSet bears the highest revision"
    HISTORY = Reasons("Delete"), "more old revisions are kept than wanted"


def plan(snapshot: DeploymentSnapshot) -> Plan:
    deployment = snapshot.deployment
    if deployment.metadata.deletion_timestamp:
        return NOTHING
    if deployment.spec.paused:
        return _plan_paused(snapshot)
    if deployment.spec.strategy.type == "Recreate":
        steps = _plan_recreate(snapshot)
    else:
        steps = _plan_rolling(snapshot)
    return steps.then(_plan_history(snapshot)).then(_plan_deadline(snapshot))


def _plan_rolling(snapshot: DeploymentSnapshot) -> Plan:
    newest = snapshot.newest
    if newest is None:
        return _create(snapshot, rollout.first_size(snapshot))
    sizes = rollout.next_sizes(snapshot, newest)
    scaled = [one for one in snapshot.replica_sets if one.metadata.name in sizes]
    moves = do(*(_scale(snapshot, one, sizes[one.metadata.name]) for one in scaled))
    return _plan_revision(snapshot, newest).then(moves)


def _plan_recreate(snapshot: DeploymentSnapshot) -> Plan:
    """First delete all old Pods and wait until they are gone; then create the new ones."""
    newest = snapshot.newest
    busy = [one for one in snapshot.older if one.wanted > 0]
    if busy:
        return do(*(_scale(snapshot, one, 0) for one in busy))
    if any(one.status.replicas or one.status.terminating_replicas for one in snapshot.older):
        return Plan(notes=("old Pods are still going away",))
    if newest is None:
        return _create(snapshot, snapshot.deployment.wanted)
    marks = _plan_revision(snapshot, newest)
    if newest.wanted == snapshot.deployment.wanted:
        return marks
    return marks.then(do(_scale(snapshot, newest, snapshot.deployment.wanted)))


def _plan_paused(snapshot: DeploymentSnapshot) -> Plan:
    """No rollout while paused, but scaling works: in its middle, within the surge."""
    sizes = rollout.paused_sizes(snapshot)
    scaled = [one for one in snapshot.replica_sets if one.metadata.name in sizes]
    return do(*(_scale(snapshot, one, sizes[one.metadata.name]) for one in scaled))


def _plan_revision(snapshot: DeploymentSnapshot, newest: ReplicaSet) -> Plan:
    """A template that comes back (a rollback) gets a new revision, too."""
    number = next_revision(snapshot)
    patches: list[Patch] = []
    if revision(newest) < number:
        patches.append(
            _annotate(
                REPLICA_SETS,
                newest,
                {ANNOTATION_REVISION: str(number), **_targets(snapshot.deployment)},
            )
        )
    else:
        number = revision(newest)
    if snapshot.deployment.metadata.annotations.get(ANNOTATION_REVISION) != str(number):
        patches.append(
            _annotate(DEPLOYMENTS, snapshot.deployment, {ANNOTATION_REVISION: str(number)})
        )
    return do(*patches)


def next_revision(snapshot: DeploymentSnapshot) -> int:
    return max(map(revision, snapshot.older), default=0) + 1


def _annotate(resource: Any, target: ReplicaSet | Deployment, annotations: dict[str, str]) -> Patch:
    meta = target.metadata
    patch = {"metadata": {"annotations": annotations}}
    # By the status subresource, because a plain patch would bump the generation.
    return Patch(resource, meta.key, patch, Cause.REVISION, subresource="status", uid=meta.uid)


def _plan_history(snapshot: DeploymentSnapshot) -> Plan:
    if not is_complete(snapshot.deployment, snapshot.deployment.status):
        return NOTHING
    limit = snapshot.deployment.spec.revision_history_limit
    idle = [
        one
        for one in snapshot.older
        if not (one.wanted or one.status.replicas or one.metadata.deletion_timestamp)
    ]
    surplus = len(idle) - (10 if limit is None else limit)
    oldest = sorted(idle, key=revision)[: max(0, surplus)]
    return do(
        *(Delete(REPLICA_SETS, one.metadata.key, one.metadata.uid, Cause.HISTORY) for one in oldest)
    )


def _plan_deadline(snapshot: DeploymentSnapshot) -> Plan:
    left = progress_left(snapshot.deployment, snapshot.now)
    if left is None or left <= timedelta(0):
        return NOTHING
    return Plan(wait=Wait("the deadline for progress", left))


def _scale(snapshot: DeploymentSnapshot, target: ReplicaSet, size: int) -> Patch:
    meta = target.metadata
    cause = Cause.SCALE_UP if size > target.wanted else Cause.SCALE_DOWN
    return Patch(
        REPLICA_SETS,
        meta.key,
        {"metadata": {"annotations": _targets(snapshot.deployment)}, "spec": {"replicas": size}},
        cause,
        why=f"from {target.wanted} to {size}",
        uid=meta.uid,
    )


def _targets(deployment: Deployment) -> dict[str, str]:
    wanted = deployment.wanted
    return {
        ANNOTATION_DESIRED_REPLICAS: str(wanted),
        ANNOTATION_MAX_REPLICAS: str(wanted + rollout.surge(deployment)),
    }


def _create(snapshot: DeploymentSnapshot, size: int) -> Plan:
    deployment = snapshot.deployment
    meta, template = deployment.metadata, deployment.spec.template
    mark = template_hash(template)
    labels = {**bare_template(template)["metadata"]["labels"], HASH_LABEL: mark}
    selector = deployment.spec.selector
    number = str(next_revision(snapshot))
    kept = {
        name: text
        for name, text in meta.annotations.items()
        if name not in (ANNOTATION_REVISION, ANNOTATION_LAST_APPLIED)
    }
    manifest = {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": f"{meta.name}-{mark}",
            "namespace": meta.namespace,
            "labels": labels,
            "annotations": {**kept, ANNOTATION_REVISION: number, **_targets(deployment)},
            "ownerReferences": [DEPLOYMENTS.controller_reference(meta)],
        },
        "spec": {
            "replicas": size,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: mark},
            },
            "template": {
                **template,
                "metadata": {**(template.get("metadata") or {}), "labels": labels},
            },
        },
    }
    why = f"from 0 to {size}"
    return do(
        Create(REPLICA_SETS, manifest, Cause.NEW_TEMPLATE, why=why),
        _annotate(DEPLOYMENTS, deployment, {ANNOTATION_REVISION: number}),
    )
