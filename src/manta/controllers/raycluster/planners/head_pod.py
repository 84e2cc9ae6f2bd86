"""The head Pod: exactly one, whatever was found."""

from __future__ import annotations

from datetime import timedelta

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType
from manta.api.resources import PODS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.auth_secret import plan_auth_secret
from manta.controllers.raycluster.planners.backoff import sick_pods
from manta.controllers.raycluster.planners.gang import marked
from manta.controllers.raycluster.planners.terminating import lost_because
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.head_pod import build_head_pod, head_pod_name
from manta.reconcile.actions import Create, Delete, Patch
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.rules.pod_health import is_ready, is_running, is_terminating, was_never_begun
from manta.rules.spec_hash import spec_hash

GOING_AWAY_RETRY = timedelta(seconds=10)
NOTED = timedelta(seconds=1)


def plan_head_pod(seen: ClusterSnapshot) -> Plan:
    live = [pod for pod in seen.head_pods if not is_terminating(pod)]
    if len(live) > 1:
        return _keep_one(live)
    if live:
        return _look_after(seen, live[0])
    leaving = [*seen.head_pods, *(pod for pod in seen.strangers if _is_head(pod))]
    if any(_blocks_next_head(seen, pod) for pod in leaving):
        # However long that takes: two heads that both believe in themselves, on a lost node and
        # here, would tear the cluster apart. `Blocked` names a Pod that does not go.
        which = ", ".join(pod.metadata.name for pod in leaving)
        return Plan(wait=Wait(f"head Pod {which} is still going away", GOING_AWAY_RETRY))
    return _create(seen)


def _blocks_next_head(seen: ClusterSnapshot, pod: Pod) -> bool:
    """True until the Pod is gone, or cannot run and is only kept by a finalizer. Its name is taken
    even then: the next head gets another name as soon as the status names this Pod."""
    is_over = lost_because(seen, pod) and pod.metadata.finalizers
    return not is_over or pod.metadata.name == head_pod_name(seen.cluster, seen.settings)


def _is_head(pod: Pod) -> bool:
    return pod.metadata.labels.get(names.LABEL_NODE_TYPE) == names.NODE_HEAD


def _keep_one(heads: list[Pod]) -> Plan:
    """Two heads would split the cluster. The one that serves stays; of equals, the elder (C01)."""
    kept = min(heads, key=_claim_to_stay)
    extra = [pod for pod in heads if pod is not kept]
    why = f"{kept.metadata.name} is the head of this cluster"
    deletions = [
        Delete(PODS, pod.metadata.key, pod.metadata.uid, Cause.SECOND_HEAD, why) for pod in extra
    ]
    return do(*deletions)


def _claim_to_stay(pod: Pod) -> tuple[bool, bool, bool, bool, str, str]:
    meta = pod.metadata
    orphan, held = meta.controller is None, _is_held(pod)
    return held, not is_ready(pod), not is_running(pod), orphan, meta.creation_timestamp, meta.name


def _is_held(pod: Pod) -> bool:
    """Behind our gate: nothing of it can have run."""
    return any(gate.name == names.GATE_HEAD_NOTED for gate in pod.spec.scheduling_gates)


def _look_after(seen: ClusterSnapshot, pod: Pod) -> Plan:
    if not _is_held(pod):
        return _replace_if_sick(seen, pod)
    if seen.submits_beside_head and seen.cluster.status.head.pod_name != pod.metadata.name:
        # Until then, whoever finds no head may make one: this one cannot have run.
        return Plan(wait=Wait("the head starts when the status names it", NOTED))
    return do(_open_gate(pod))


def _open_gate(pod: Pod) -> Patch:
    meta = pod.metadata
    others = [g for g in pod.spec.scheduling_gates if g.name != names.GATE_HEAD_NOTED]
    body = {"spec": {"schedulingGates": [{"name": gate.name} for gate in others] or None}}
    why = "the status names it: no other head will be made"
    version = meta.resource_version  # a gate that another one opened meanwhile stays open
    return Patch(
        PODS, meta.key, body, Cause.HEAD_NOTED, why, uid=meta.uid, resource_version=version
    )


def _replace_if_sick(seen: ClusterSnapshot, pod: Pod) -> Plan:
    sick = sick_pods(seen, [pod])
    if sick.waiting:
        return Plan(wait=Wait(f"{sick.waiting[0].why}; it is replaced later", sick.next_due))
    if not sick.due:
        return NOTHING
    meta, why = pod.metadata, sick.due[0].why
    if seen.submits_beside_head and was_never_begun(pod) and seen.cluster.status.head.pod_name:
        # Forgotten before it goes: a head that was, and is gone, would have taken its job along.
        return Plan(wait=Wait(f"{why}; it is replaced when the status names it no longer", NOTED))
    delete = Delete(PODS, meta.key, meta.uid, Cause.UNHEALTHY_HEAD, why)
    return do(delete, wait=Wait(f"{why}; it is replaced when it is gone"))


def _create(seen: ClusterSnapshot) -> Plan:
    annotations = seen.cluster.metadata.annotations
    had_one = seen.submits_beside_head and seen.cluster.status.head.pod_name
    if (seen.condition(ClusterConditionType.PROVISIONED) or had_one) and annotations.get(
        names.ANNOTATION_DISABLE_HEAD_RESTART
    ) == "true":
        # A RayJob in SidecarMode ends with its head: a new one could only run the job twice.
        return Plan(wait=Wait("the head is gone and is not to be restarted"))
    manifest = build_head_pod(seen.cluster, seen.settings, spec_hash=spec_hash(seen.cluster.spec))
    pod = marked(seen, manifest, names.HEAD_GROUP)
    return plan_auth_secret(seen).then(do(Create(PODS, pod, Cause.NO_HEAD)))
