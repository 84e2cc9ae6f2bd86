"""The head Pod: exactly one."""

from __future__ import annotations

from datetime import timedelta

from manta.api.conditions import Blockage
from manta.api.core import Pod
from manta.api.ray import names
from manta.api.resources import PODS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import (
    allows_no_next_head,
    cluster_of_new_pods,
    lost_because,
    revision_of_new_pods,
    submitted_nothing,
)
from manta.controllers.raycluster.leftovers import is_of_earlier_cluster, remains
from manta.controllers.raycluster.planners.auth_secret import plan_auth_secret
from manta.controllers.raycluster.planners.backoff import failed_pods
from manta.controllers.raycluster.planners.gang import with_gang
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.head_pod import build_head_pod, head_pod_name
from manta.manifests.pod_metadata import with_annotations
from manta.reconcile.actions import Create, Delete, Patch
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.rules.pod_health import is_ready, is_running, is_terminating
from manta.rules.spec_hash import spec_hash

TERMINATING_RETRY = timedelta(seconds=10)
STATUS_RETRY = timedelta(seconds=1)


def plan_head_pod(snapshot: ClusterSnapshot) -> Plan:
    live = [pod for pod in snapshot.head_pods if not is_terminating(pod)]
    if len(live) > 1:
        return _keep_one(live)
    if live:
        return _maintain(snapshot, live[0])
    earlier = [pod for pod in snapshot.foreign_pods if _is_earlier_head(snapshot, pod)]
    leaving = [*snapshot.head_pods, *earlier]
    if any(_blocks_next_head(snapshot, pod) for pod in leaving):
        # However long that takes: a second head beside one on an unreachable node would split the
        # cluster. `Blocked` names a Pod that is stuck.
        which = ", ".join(pod.metadata.name for pod in leaving)
        wait = Wait(f"head Pod {which} is still being deleted", TERMINATING_RETRY)
        stays = (remains(snapshot, PODS.kind, pod) for pod in earlier)
        return Plan(wait=wait, blocked_by=next((one for one in stays if one), None))
    if snapshot.unnamed_head:
        why = f"the status names the lost head {snapshot.unnamed_head} before the next is created"
        return Plan(wait=Wait(why, STATUS_RETRY))
    return _create(snapshot)


def _blocks_next_head(snapshot: ClusterSnapshot, pod: Pod) -> bool:
    """True until the Pod is gone, or cannot run and only a finalizer keeps it. Even then its name is
    taken: the next head gets another name once the status has this one."""
    is_over = lost_because(snapshot, pod) and pod.metadata.finalizers
    return not is_over or pod.metadata.name == head_pod_name(snapshot.cluster, snapshot.settings)


def _is_earlier_head(snapshot: ClusterSnapshot, pod: Pod) -> bool:
    """A head of a deleted RayCluster of the same name. A Pod of anybody else that only carries our labels goes
    never, and is no reason to wait."""
    is_head = pod.metadata.labels.get(names.LABEL_NODE_TYPE) == names.NODE_HEAD
    return is_head and is_of_earlier_cluster(snapshot, pod)


def _keep_one(heads: list[Pod]) -> Plan:
    """Two heads would split the cluster. Keep the one that is ready; of equals, the oldest (C01)."""
    kept = min(heads, key=_keep_order)
    extra = [pod for pod in heads if pod is not kept]
    why = f"{kept.metadata.name} is the head of this cluster"
    deletions = [
        Delete(PODS, pod.metadata.key, pod.metadata.uid, Cause.SECOND_HEAD, why) for pod in extra
    ]
    return do(*deletions)


def _keep_order(pod: Pod) -> tuple[bool, bool, bool, bool, str, str]:
    meta = pod.metadata
    orphan, gated = meta.controller is None, is_gated(pod)
    return gated, not is_ready(pod), not is_running(pod), orphan, meta.creation_timestamp, meta.name


def is_gated(pod: Pod) -> bool:
    """Has our scheduling gate: none of its containers can have run."""
    return any(gate.name == names.GATE_HEAD_NOTED for gate in pod.spec.scheduling_gates)


def creates_gated(plan: Plan) -> bool:
    """Whether the plan creates a head with our scheduling gate."""
    creations = (
        action.manifest["spec"]
        for action in plan.actions
        if isinstance(action, Create) and action.resource is PODS
    )
    gates = (gate for spec in creations for gate in spec.get("schedulingGates") or ())
    return any(gate["name"] == names.GATE_HEAD_NOTED for gate in gates)


def _maintain(snapshot: ClusterSnapshot, pod: Pod) -> Plan:
    if not is_gated(pod):
        return _replace_if_failed(snapshot, pod)
    if snapshot.submits_beside_head and snapshot.cluster.status.head.pod_name != pod.metadata.name:
        # The gate keeps this Pod from starting, so another replica may still create a head safely.
        return Plan(wait=Wait("the head starts when the status names it", STATUS_RETRY))
    return do(_open_gate(pod))


def _open_gate(pod: Pod) -> Patch:
    meta = pod.metadata
    others = [g for g in pod.spec.scheduling_gates if g.name != names.GATE_HEAD_NOTED]
    body = {"spec": {"schedulingGates": [{"name": gate.name} for gate in others] or None}}
    why = "the status names it: no other head will be created"
    version = meta.resource_version  # do not restore a gate that was removed meanwhile
    return Patch(
        PODS, meta.key, body, Cause.HEAD_NOTED, why, uid=meta.uid, resource_version=version
    )


def _replace_if_failed(snapshot: ClusterSnapshot, pod: Pod) -> Plan:
    failed = failed_pods(snapshot, [pod])
    if failed.waiting:
        return Plan(wait=Wait(f"{failed.waiting[0].why}; it is replaced later", failed.next_due))
    if not failed.due:
        return NOTHING
    meta, why = pod.metadata, failed.due[0].why
    if submitted_nothing(snapshot, pod) and snapshot.cluster.status.head.pod_name:
        # Remove the name before the Pod: a named head that is gone counts as lost with its job.
        return Plan(
            wait=Wait(f"{why}; it is replaced when the status names it no longer", STATUS_RETRY)
        )
    delete = Delete(PODS, meta.key, meta.uid, Cause.UNHEALTHY_HEAD, why)
    return do(delete, wait=Wait(f"{why}; it is replaced when it is gone"))


def _create(snapshot: ClusterSnapshot) -> Plan:
    if allows_no_next_head(snapshot):
        # A RayJob in SidecarMode ends with its head: a new head would run the job a second time.
        why = f"the head is gone, and {names.ANNOTATION_DISABLE_HEAD_RESTART}=true forbids another"
        return Plan(wait=Wait(why), blocked_by=Blockage("HeadNotRestarted", why))
    cluster = cluster_of_new_pods(snapshot)
    manifest = build_head_pod(cluster, snapshot.settings, spec_hash=spec_hash(cluster.spec))
    marked = with_annotations(manifest["metadata"], revision_of_new_pods(snapshot))
    pod = with_gang(snapshot, {**manifest, "metadata": marked}, names.HEAD_GROUP)
    return plan_auth_secret(snapshot).then(do(Create(PODS, pod, Cause.NO_HEAD)))
