"""Why the RayCluster controller does something, and which Event each cause leaves behind.

The only file that spells Event reasons. They are KubeRay's: dashboards and tests look for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from manta.reconcile.events import EventTable, Reasons, Told, created, deleted, updated, worded
from manta.reconcile.outcome import Outcome

CONTROLLER: Final = "raycluster-controller"


class Cause(StrEnum):
    # Pods
    NO_HEAD = "NoHead"
    SECOND_HEAD = "SecondHead"
    UNHEALTHY_HEAD = "UnhealthyHead"
    HEAD_NOTED = "HeadNoted"
    SCALE_UP = "ScaleUp"
    SCALE_DOWN = "ScaleDown"
    UNHEALTHY_WORKER = "UnhealthyWorker"
    NAMED_FOR_DELETION = "NamedForDeletion"
    INCOMPLETE_REPLICA = "IncompleteReplica"
    GROUP_SUSPENDED = "GroupSuspended"
    GROUP_REMOVED = "GroupRemoved"
    SUSPENDED = "Suspended"
    SPEC_CHANGED = "SpecChanged"
    OPERATOR_CHANGED = "OperatorChanged"
    POD_LOST = "PodLost"
    # what surrounds them
    HEAD_SERVICE = "HeadService"
    HEADLESS_SERVICE = "HeadlessService"
    SERVE_SERVICE = "ServeService"
    SERVICE_DRIFT = "ServiceDrift"
    AUTOSCALER_ACCOUNT = "AutoscalerAccount"
    AUTOSCALER_ROLE = "AutoscalerRole"
    AUTOSCALER_ROLE_DRIFT = "AutoscalerRoleDrift"
    AUTOSCALER_BINDING = "AutoscalerBinding"
    AUTOSCALER_BINDING_DRIFT = "AutoscalerBindingDrift"
    INGRESS = "Ingress"
    INGRESS_DRIFT = "IngressDrift"
    ROUTE = "Route"
    ROUTE_DRIFT = "RouteDrift"
    NETWORK_POLICY = "NetworkPolicy"
    NETWORK_POLICY_DRIFT = "NetworkPolicyDrift"
    STALE_POLICY = "StalePolicy"
    HEAD_BUDGET = "HeadBudget"
    HEAD_BUDGET_DRIFT = "HeadBudgetDrift"
    STALE_BUDGET = "StaleBudget"
    AUTH_SECRET = "AuthSecret"  # noqa: S105 - the name of a cause
    AUTH_SECRET_ANEW = "AuthSecretAnew"  # noqa: S105 - the name of a cause
    TLS_ISSUER = "TlsIssuer"
    TLS_CERTIFICATE = "TlsCertificate"
    TLS_ADDRESSES = "TlsAddresses"
    TLS_SECRET_OWNER = "TlsSecretOwner"  # noqa: S105 - the name of a cause
    TLS_SECRET_NOTED = "TlsSecretNoted"  # noqa: S105 - the name of a cause
    POD_GROUP = "PodGroup"
    POD_GROUP_DRIFT = "PodGroupDrift"
    GCS_CLAIM = "GcsClaim"
    GCS_CLAIM_OWNER = "GcsClaimOwner"
    # deletion
    ADD_FINALIZER = "AddFinalizer"
    CLUSTER_DELETED = "ClusterDeleted"
    REDIS_CLEANUP = "RedisCleanup"
    CLEANUP_FINISHED = "CleanupFinished"
    CLEANUP_FAILED = "CleanupFailed"
    CLEANUP_TIMED_OUT = "CleanupTimedOut"


_ANY_POD = deleted("Pod")
_ALL_PODS = replace(_ANY_POD, failed="FailedToDeletePodCollection")
_SILENT = Reasons("Update", failed="FailedToUpdateRayCluster")
_TRUST = Reasons("Reconcile", failed="MTLSFailedToReconcile")

EVENTS: EventTable = {
    Cause.NO_HEAD: created("HeadPod", "head Pod"),
    Cause.SECOND_HEAD: deleted("HeadPod", "head Pod"),
    Cause.UNHEALTHY_HEAD: deleted("HeadPod", "head Pod"),
    Cause.HEAD_NOTED: _SILENT,
    Cause.SCALE_UP: created("WorkerPod", "worker Pod"),
    Cause.SCALE_DOWN: deleted("WorkerPod", "worker Pod"),
    Cause.UNHEALTHY_WORKER: deleted("WorkerPod", "worker Pod"),
    Cause.NAMED_FOR_DELETION: deleted("WorkerPod", "worker Pod"),
    Cause.INCOMPLETE_REPLICA: deleted("WorkerPod", "worker Pod"),
    Cause.GROUP_SUSPENDED: replace(
        deleted("WorkerPod", "worker Pod"), failed="FailedToDeleteWorkerPodCollection"
    ),
    Cause.GROUP_REMOVED: deleted("WorkerPod", "worker Pod"),
    Cause.SUSPENDED: _ALL_PODS,
    Cause.SPEC_CHANGED: _ALL_PODS,
    Cause.OPERATOR_CHANGED: _SILENT,
    Cause.POD_LOST: replace(
        _ANY_POD, done_type="Warning", done_note="Removed Pod {key}, which did not go away: {why}"
    ),
    Cause.HEAD_SERVICE: created("Service"),
    Cause.HEADLESS_SERVICE: created("Service"),
    Cause.SERVE_SERVICE: created("Service"),
    Cause.SERVICE_DRIFT: updated("Service"),
    Cause.AUTOSCALER_ACCOUNT: created("ServiceAccount"),
    Cause.AUTOSCALER_ROLE: created("Role"),
    Cause.AUTOSCALER_ROLE_DRIFT: updated("Role"),
    Cause.AUTOSCALER_BINDING: created("RoleBinding"),
    Cause.AUTOSCALER_BINDING_DRIFT: updated("RoleBinding"),
    Cause.INGRESS: created("Ingress"),
    Cause.INGRESS_DRIFT: updated("Ingress"),
    Cause.ROUTE: created("Route"),
    Cause.ROUTE_DRIFT: updated("Route"),
    Cause.NETWORK_POLICY: replace(created("NetworkPolicy"), taken="NetworkPolicyNameCollision"),
    Cause.NETWORK_POLICY_DRIFT: updated("NetworkPolicy"),
    Cause.STALE_POLICY: deleted("NetworkPolicy"),
    Cause.HEAD_BUDGET: created("PodDisruptionBudget"),
    Cause.HEAD_BUDGET_DRIFT: updated("PodDisruptionBudget"),
    Cause.STALE_BUDGET: deleted("PodDisruptionBudget"),
    Cause.AUTH_SECRET: created("Secret"),
    Cause.AUTH_SECRET_ANEW: replace(
        created("Secret"), done_type="Warning", done_note="Created Secret {key}: {why}"
    ),
    Cause.TLS_ISSUER: _TRUST,
    Cause.TLS_CERTIFICATE: _TRUST,
    Cause.TLS_ADDRESSES: replace(
        _TRUST, done="MTLSCertificatesUpdated", done_note="Updated Certificate {key}: {why}"
    ),
    Cause.TLS_SECRET_OWNER: _TRUST,
    Cause.TLS_SECRET_NOTED: replace(
        _TRUST, done="MTLSPKIReady", done_note="Certificate {key} is issued"
    ),
    Cause.POD_GROUP: created("PodGroup"),
    Cause.POD_GROUP_DRIFT: updated("PodGroup"),
    Cause.GCS_CLAIM: created("PVC"),
    Cause.GCS_CLAIM_OWNER: updated("PVC"),
    Cause.ADD_FINALIZER: _SILENT,
    Cause.CLUSTER_DELETED: _ANY_POD,
    Cause.REDIS_CLEANUP: created("RedisCleanupJob"),
    Cause.CLEANUP_FINISHED: _SILENT,
    Cause.CLEANUP_FAILED: Reasons(
        "Cleanup", done="FailedToCleanRedis", done_type="Warning", done_note="{why}"
    ),
    Cause.CLEANUP_TIMED_OUT: Reasons(
        "Cleanup", done="ForceDeletedStuckCluster", done_type="Warning", done_note="{why}"
    ),
}

_NAMED = 5


def told(outcome: Outcome) -> list[Told]:
    """The Events of a reconcile: every warning by itself, and one for each other reason.

    Each reason of KubeRay is there whenever it happened, because dashboards and scripts look for
    them. A hundred new workers are still one Event: it names the first few and counts the rest.
    """
    events = list(worded(EVENTS, outcome))
    warnings = [event for event in events if event.type == "Warning"]
    news: dict[tuple[str, str], list[str]] = {}
    for event in events:
        if event.type == "Normal":
            news.setdefault((event.reason, event.action), []).append(event.note)
    return [
        *warnings,
        *(
            Told("Normal", reason, action, _joined(notes))
            for (reason, action), notes in news.items()
        ),
    ]


def _joined(notes: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = [f"and {len(notes) - _NAMED} more like it"] if len(notes) > _NAMED else []
    return "; ".join([*notes[:_NAMED], *more])
