"""What a Deployment does with its ReplicaSets. Pure."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any

from manta.api.resources import DEPLOYMENTS, REPLICA_SETS
from manta.localplane.builtin.deployment import rollout
from manta.localplane.builtin.deployment.snapshot import (
    DESIRED,
    HASH_LABEL,
    MOST,
    REVISION,
    DeploymentSnapshot,
    bare_template,
    revision,
    template_hash,
)
from manta.localplane.builtin.deployment.status import is_complete, progress_left
from manta.localplane.builtin.ownership import controlled_by
from manta.localplane.builtin.views import Deployment, ReplicaSet
from manta.reconcile.actions import Create, Delete, Patch
from manta.reconcile.plan import NOTHING, Plan, Wait, do


class Cause(StrEnum):
    NEW_TEMPLATE = "the template has no ReplicaSet yet"
    SCALE_UP = "the rollout goes on"
    SCALE_DOWN = "the rollout goes on, or fewer are wanted"
    REVISION = "the present ReplicaSet bears the highest revision"
    HISTORY = "more old revisions are kept than wanted"


def plan(seen: DeploymentSnapshot) -> Plan:
    deployment = seen.deployment
    if deployment.metadata.deletion_timestamp:
        return NOTHING
    if deployment.spec.paused:
        return _plan_paused(seen)
    if deployment.spec.strategy.type == "Recreate":
        steps = _plan_recreate(seen)
    else:
        steps = _plan_rolling(seen)
    return steps.then(_plan_history(seen)).then(_plan_deadline(seen))


def _plan_rolling(seen: DeploymentSnapshot) -> Plan:
    newest = seen.newest
    if newest is None:
        return _create(seen, rollout.first_size(seen))
    sizes = rollout.next_sizes(seen, newest)
    scaled = [one for one in seen.replica_sets if one.metadata.name in sizes]
    moves = do(*(_scale(seen, one, sizes[one.metadata.name]) for one in scaled))
    return _plan_revision(seen, newest).then(moves)


def _plan_recreate(seen: DeploymentSnapshot) -> Plan:
    """First all old Pods go, also those on their way out; then the new ones come."""
    newest = seen.newest
    busy = [one for one in seen.older if one.wanted > 0]
    if busy:
        return do(*(_scale(seen, one, 0) for one in busy))
    if any(one.status.replicas or one.status.terminating_replicas for one in seen.older):
        return Plan(notes=("old Pods are still going away",))
    if newest is None:
        return _create(seen, seen.deployment.wanted)
    marks = _plan_revision(seen, newest)
    if newest.wanted == seen.deployment.wanted:
        return marks
    return marks.then(do(_scale(seen, newest, seen.deployment.wanted)))


def _plan_paused(seen: DeploymentSnapshot) -> Plan:
    """No rollout while paused, but scaling works: in its middle, within the surge."""
    sizes = rollout.paused_sizes(seen)
    scaled = [one for one in seen.replica_sets if one.metadata.name in sizes]
    return do(*(_scale(seen, one, sizes[one.metadata.name]) for one in scaled))


def _plan_revision(seen: DeploymentSnapshot, newest: ReplicaSet) -> Plan:
    """A template that comes back (a rollback) gets a new revision, too."""
    number = next_revision(seen)
    patches: list[Patch] = []
    if revision(newest) < number:
        patches.append(
            _annotate(REPLICA_SETS, newest, {REVISION: str(number), **_targets(seen.deployment)})
        )
    else:
        number = revision(newest)
    if seen.deployment.metadata.annotations.get(REVISION) != str(number):
        patches.append(_annotate(DEPLOYMENTS, seen.deployment, {REVISION: str(number)}))
    return do(*patches)


def next_revision(seen: DeploymentSnapshot) -> int:
    return max(map(revision, seen.older), default=0) + 1


def _annotate(resource: Any, target: ReplicaSet | Deployment, annotations: dict[str, str]) -> Patch:
    meta = target.metadata
    patch = {"metadata": {"annotations": annotations}}
    # Beside the status, because an annotation written the plain way is a new generation.
    return Patch(resource, meta.key, patch, Cause.REVISION, subresource="status", uid=meta.uid)


def _plan_history(seen: DeploymentSnapshot) -> Plan:
    if not is_complete(seen.deployment, seen.deployment.status):
        return NOTHING
    limit = seen.deployment.spec.revision_history_limit
    idle = [
        one
        for one in seen.older
        if not (one.wanted or one.status.replicas or one.metadata.deletion_timestamp)
    ]
    surplus = len(idle) - (10 if limit is None else limit)
    oldest = sorted(idle, key=revision)[: max(0, surplus)]
    return do(
        *(Delete(REPLICA_SETS, one.metadata.key, one.metadata.uid, Cause.HISTORY) for one in oldest)
    )


def _plan_deadline(seen: DeploymentSnapshot) -> Plan:
    left = progress_left(seen.deployment, seen.now)
    if left is None or left <= timedelta(0):
        return NOTHING
    return Plan(wait=Wait("the deadline for progress", left))


def _scale(seen: DeploymentSnapshot, target: ReplicaSet, size: int) -> Patch:
    meta = target.metadata
    cause = Cause.SCALE_UP if size > target.wanted else Cause.SCALE_DOWN
    return Patch(
        REPLICA_SETS,
        meta.key,
        {
            "metadata": {"annotations": _targets(seen.deployment)},
            "spec": {"replicas": size},
        },
        cause,
        why=f"from {target.wanted} to {size}",
        uid=meta.uid,
    )


def _targets(deployment: Deployment) -> dict[str, str]:
    wanted = deployment.wanted
    return {DESIRED: str(wanted), MOST: str(wanted + rollout.surge(deployment))}


def _create(seen: DeploymentSnapshot, size: int) -> Plan:
    deployment = seen.deployment
    meta, template = deployment.metadata, deployment.spec.template
    mark = template_hash(template)
    labels = {**bare_template(template)["metadata"]["labels"], HASH_LABEL: mark}
    selector = deployment.spec.selector
    number = str(next_revision(seen))
    kept = {
        name: text
        for name, text in meta.annotations.items()
        if name not in (REVISION, "kubectl.kubernetes.io/last-applied-configuration")
    }
    manifest = {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": f"{meta.name}-{mark}",
            "namespace": meta.namespace,
            "labels": labels,
            "annotations": {**kept, REVISION: number, **_targets(deployment)},
            "ownerReferences": [controlled_by(DEPLOYMENTS, meta)],
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
        _annotate(DEPLOYMENTS, deployment, {REVISION: number}),
    )
