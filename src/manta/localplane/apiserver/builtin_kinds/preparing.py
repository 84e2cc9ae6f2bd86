"""From what a client sent to what is stored: status cleared, defaults filled, identity given.

The objects that come in are not changed; what goes out is as the real server prints it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from manta.localplane.apiserver.builtin_kinds.context import Context
from manta.localplane.apiserver.builtin_kinds.defaults import objects, services, workloads
from manta.localplane.apiserver.builtin_kinds.defaults.pods import (
    default_pod,
    default_template,
    quality_of_service,
)
from manta.localplane.apiserver.builtin_kinds.pod_admission import admit_pod, give_tolerations
from manta.localplane.apiserver.builtin_kinds.reading import read_object
from manta.localplane.apiserver.schema.defaulting import copy_json

Json = dict[str, Any]

_DEFAULTS: Final[dict[str, Callable[[Json], None]]] = {
    "ClusterRoleBinding": objects.default_binding,
    "CronJob": workloads.default_cron_job,
    "CustomResourceDefinition": objects.default_definition,
    "DaemonSet": workloads.default_daemon_set,
    "Deployment": workloads.default_deployment,
    "EndpointSlice": objects.default_endpoint_slice,
    "Endpoints": objects.default_endpoints,
    "HorizontalPodAutoscaler": objects.default_autoscaler,
    "IngressClass": objects.default_ingress_class,
    "Job": workloads.default_job,
    "LimitRange": objects.default_limit_range,
    "Namespace": objects.default_namespace,
    "NetworkPolicy": objects.default_network_policy,
    "Node": objects.default_node,
    "PersistentVolume": objects.default_volume,
    "PersistentVolumeClaim": objects.default_claim,
    "Pod": default_pod,
    "PodTemplate": default_template,
    "PriorityClass": objects.default_priority_class,
    "ReplicaSet": workloads.default_replica_set,
    "ReplicationController": workloads.default_replication_controller,
    "ResourceQuota": objects.default_quota,
    "RoleBinding": objects.default_binding,
    "Secret": objects.default_secret,
    "Service": services.default_service,
    "StatefulSet": workloads.default_stateful_set,
    "StorageClass": objects.default_storage_class,
}

# Kinds whose status a client cannot set when it creates one. Nodes may: kubelets register so.
_STATUS_CLEARED: Final = frozenset(
    {
        "CronJob",
        "CustomResourceDefinition",
        "DaemonSet",
        "Deployment",
        "HorizontalPodAutoscaler",
        "Ingress",
        "Job",
        "Namespace",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodDisruptionBudget",
        "ReplicaSet",
        "ReplicationController",
        "ResourceQuota",
        "Service",
        "StatefulSet",
    }
)


# Kinds in which nothing below the second level is filled in.
_FLAT: Final = frozenset(
    {
        "ClusterRole",
        "ConfigMap",
        "CustomResourceDefinition",
        "Event",
        "Lease",
        "Namespace",
        "PriorityClass",
        "Role",
        "Secret",
        "ServiceAccount",
    }
)


def with_defaults(api_version: str, kind: str, obj: Json) -> Json:
    """What a client means by an object, before the server adds anything of its own.

    This is what a client comes to own in managedFields.
    """
    filled = _copy(kind, obj)
    _fill(kind, filled)
    return read_object(api_version, kind, filled)


def prepare_create(api_version: str, kind: str, obj: Json, context: Context) -> Json:
    """A new object, ready to be validated. Its metadata must have its name and uid already.

    Raises RefusedError where admission says no.
    """
    new = _copy(kind, obj)
    if kind in _STATUS_CLEARED:
        new.pop("status", None)
    _fill(kind, new)
    begin = _BEGINNINGS.get(kind)
    if begin is not None:
        begin(new, context)
    return read_object(api_version, kind, new)


def prepare_update(
    api_version: str,
    kind: str,
    old: Json,
    new: Json,
    context: Context,
    subresource: str = "",
) -> Json:
    """A changed object, ready to be validated."""
    if subresource == "status" and kind != "Node":  # the rest is as it was stored
        return read_object(api_version, kind, new)
    changed = _copy(kind, new)
    _fill(kind, changed)
    if kind == "Service":
        services.keep_allocated(old, changed)
        services.drop_needless(old, changed)
        services.allocate(changed, context, old)
    elif kind == "Pod" and not subresource:
        give_tolerations(changed)
    elif kind == "DaemonSet" and not subresource:
        workloads.count_template(old, changed)
    return read_object(api_version, kind, changed)


def _copy(kind: str, obj: Json) -> Json:
    """As deep as defaults reach: a CRD of a megabyte is not copied for the sake of its names."""
    if kind not in _FLAT:
        copied: Json = copy_json(obj)
        return copied
    return {name: dict(value) if type(value) is dict else value for name, value in obj.items()}


def _fill(kind: str, obj: Json) -> None:
    fill = _DEFAULTS.get(kind)
    if fill is not None:
        fill(obj)


# ── beginnings ───────────────────────────────────────────────────────────────────────────
def _begin_pod(pod: Json, context: Context) -> None:
    admit_pod(pod, context)
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": pod["metadata"].get("creationTimestamp"),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        pod["status"]["conditions"] = [gated]


def _begin_namespace(namespace: Json, _: Context) -> None:
    spec = namespace.setdefault("spec", {})
    spec["finalizers"] = list(dict.fromkeys([*(spec.get("finalizers") or []), "kubernetes"]))
    namespace["status"] = {"phase": "Active"}


def _begin_claim(claim: Json, _: Context) -> None:
    _protect(claim, "kubernetes.io/pvc-protection")
    claim["status"] = {"phase": "Pending"}


def _begin_volume(volume: Json, _: Context) -> None:
    _protect(volume, "kubernetes.io/pv-protection")
    made = volume["metadata"].get("creationTimestamp")
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": made}


def _protect(obj: Json, finalizer: str) -> None:
    """Storage in use is not deleted: the storage protection controllers let it go."""
    names = obj["metadata"].get("finalizers") or []
    if finalizer not in names:
        obj["metadata"]["finalizers"] = [*names, finalizer]


def _begin_job(job: Json, _: Context) -> None:
    workloads.identify_job(job)
    workloads.default_job(job)


_BEGINNINGS: Final[dict[str, Callable[[Json, Context], None]]] = {
    "Job": _begin_job,
    "Namespace": _begin_namespace,
    "PersistentVolume": _begin_volume,
    "PersistentVolumeClaim": _begin_claim,
    "Pod": _begin_pod,
    "Service": services.allocate,
}
