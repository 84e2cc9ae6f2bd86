"""The causes of the RayCluster controller's actions, and the Event of each.

The reasons are KubeRay's: dashboards and scripts depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from manta.reconcile import events
from manta.reconcile.causes import ActionCause, Reasons, created, deleted, updated
from manta.reconcile.events import Event
from manta.reconcile.outcome import Outcome

CONTROLLER: Final = "raycluster-controller"

_ANY_POD = deleted("Pod")
_ALL_PODS = replace(_ANY_POD, failed="FailedToDeletePodCollection")
_SILENT = Reasons("Update", failed="FailedToUpdateRayCluster")
_REVISION = Reasons("RollingUpdate", failed="FailedToRecordRevision")
_TRUST = Reasons("Reconcile", failed="MTLSFailedToReconcile")


class Cause(ActionCause):
    # Pods
    NO_HEAD = created("HeadPod", "head Pod")
    SECOND_HEAD = deleted("HeadPod", "head Pod")
    UNHEALTHY_HEAD = deleted("HeadPod", "head Pod")
    HEAD_NOTED = _SILENT
    SCALE_UP = created("WorkerPod", "worker Pod")
    SCALE_DOWN = deleted("WorkerPod", "worker Pod")
    UNHEALTHY_WORKER = deleted("WorkerPod", "worker Pod")
    NAMED_FOR_DELETION = deleted("WorkerPod", "worker Pod")
    INCOMPLETE_REPLICA = deleted("WorkerPod", "worker Pod")
    GROUP_SUSPENDED = replace(
        deleted("WorkerPod", "worker Pod"), failed="FailedToDeleteWorkerPodCollection"
    )
    GROUP_REMOVED = deleted("WorkerPod", "worker Pod")
    SUSPENDED = _ALL_PODS
    SPEC_CHANGED = _ALL_PODS
    ROLLED_WORKER = deleted("WorkerPod", "worker Pod")
    ROLLED_HEAD = deleted("HeadPod", "head Pod")
    REVISION = _REVISION
    OLD_REVISION = _REVISION
    ROLLOUT_PROGRESS = _REVISION
    ROLLOUT_COMPLETE = replace(_REVISION, done="RollingUpdateComplete", done_note="{why}")
    ROLLOUT_FAILED = replace(
        _REVISION, done="RollingUpdateFailed", done_type="Warning", done_note="{why}"
    )
    OPERATOR_CHANGED = _SILENT
    POD_LOST = replace(
        _ANY_POD,
        done_type="Warning",
        done_note="Removed Pod {key}, which was stuck in deletion: {why}",
    )
    # what surrounds them
    HEAD_SERVICE = created("Service")
    HEADLESS_SERVICE = created("Service")
    SERVE_SERVICE = created("Service")
    SERVICE_DRIFT = updated("Service")
    AUTOSCALER_ACCOUNT = created("ServiceAccount")
    AUTOSCALER_ROLE = created("Role")
    AUTOSCALER_ROLE_DRIFT = updated("Role")
    AUTOSCALER_BINDING = created("RoleBinding")
    AUTOSCALER_BINDING_DRIFT = updated("RoleBinding")
    INGRESS = created("Ingress")
    INGRESS_DRIFT = updated("Ingress")
    ROUTE = created("Route")
    ROUTE_DRIFT = updated("Route")
    NETWORK_POLICY = replace(created("NetworkPolicy"), taken="NetworkPolicyNameCollision")
    NETWORK_POLICY_DRIFT = updated("NetworkPolicy")
    STALE_POLICY = deleted("NetworkPolicy")
    HEAD_BUDGET = created("PodDisruptionBudget")
    HEAD_BUDGET_DRIFT = updated("PodDisruptionBudget")
    STALE_BUDGET = deleted("PodDisruptionBudget")
    AUTH_SECRET = created("Secret")
    AUTH_SECRET_AGAIN = replace(
        created("Secret"), done_type="Warning", done_note="Created Secret {key}: {why}"
    )
    TLS_ISSUER = _TRUST
    TLS_CERTIFICATE = _TRUST
    TLS_ADDRESSES = replace(
        _TRUST, done="MTLSCertificatesUpdated", done_note="Updated Certificate {key}: {why}"
    )
    TLS_SECRET_OWNER = _TRUST
    TLS_SECRET_NOTED = replace(_TRUST, done="MTLSPKIReady", done_note="Certificate {key} is issued")
    POD_GROUP = created("PodGroup")
    POD_GROUP_DRIFT = updated("PodGroup")
    STALE_POD_GROUP = deleted("PodGroup")
    POD_GROUP_RELEASED = replace(updated("PodGroup"), done="")
    WORKLOAD = created("Workload")
    STALE_WORKLOAD = deleted("Workload")
    GCS_CLAIM = created("PVC")
    GCS_CLAIM_OWNER = updated("PVC")
    # deletion
    ADD_FINALIZER = _SILENT
    CLUSTER_DELETED = _ANY_POD
    REDIS_CLEANUP = created("RedisCleanupJob")
    CLEANUP_FINISHED = _SILENT
    CLEANUP_FAILED = Reasons(
        "Cleanup", done="FailedToCleanRedis", done_type="Warning", done_note="{why}"
    )
    CLEANUP_TIMED_OUT = Reasons(
        "Cleanup", done="ForceDeletedStuckCluster", done_type="Warning", done_note="{why}"
    )


_NAMED = 5


def action_events(outcome: Outcome) -> list[Event]:
    """The Events of a reconcile: every warning by itself, and one for each other reason.

    Each reason of KubeRay is there whenever it happened, because dashboards and scripts look for
    them. A hundred new workers are still one Event: it names the first few and counts the rest.
    """
    found = list(events.action_events(outcome))
    notes: dict[tuple[str, str], list[str]] = {}
    for event in found:
        if event.type == "Normal":
            notes.setdefault((event.reason, event.action), []).append(event.note)
    return [
        *(event for event in found if event.type == "Warning"),
        *(
            Event("Normal", reason, action, _joined(each))
            for (reason, action), each in notes.items()
        ),
    ]


def _joined(notes: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = [f"and {len(notes) - _NAMED} more like it"] if len(notes) > _NAMED else []
    return "; ".join([*notes[:_NAMED], *more])
