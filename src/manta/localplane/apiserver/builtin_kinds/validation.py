"""Which check belongs to which kind."""

from __future__ import annotations

from typing import Final

from manta.localplane.apiserver.builtin_kinds.checks import (
    classes,
    cluster,
    data,
    endpoints,
    events,
    limits,
    persistent_volumes,
    pods,
    services,
    templates,
    workloads,
)
from manta.localplane.apiserver.builtin_kinds.checks.rules import Check, Json
from manta.localplane.apiserver.schema.causes import Cause

_CHECKS: Final[dict[str, Check]] = {
    "apps/v1/ControllerRevision": templates.check_controller_revision,
    "apps/v1/DaemonSet": workloads.check_daemon_set,
    "apps/v1/Deployment": workloads.check_deployment,
    "apps/v1/ReplicaSet": workloads.check_replica_set,
    "apps/v1/StatefulSet": workloads.check_stateful_set,
    "autoscaling/v2/HorizontalPodAutoscaler": cluster.check_autoscaler,
    "batch/v1/CronJob": workloads.check_cron_job,
    "batch/v1/Job": workloads.check_job,
    "coordination.k8s.io/v1/Lease": data.check_lease,
    "discovery.k8s.io/v1/EndpointSlice": endpoints.check_endpoint_slice,
    "events.k8s.io/v1/Event": events.check_event,
    "networking.k8s.io/v1/Ingress": cluster.check_ingress,
    "networking.k8s.io/v1/IngressClass": classes.check_ingress_class,
    "networking.k8s.io/v1/NetworkPolicy": cluster.check_network_policy,
    "node.k8s.io/v1/RuntimeClass": classes.check_runtime_class,
    "policy/v1/PodDisruptionBudget": data.check_budget,
    "rbac.authorization.k8s.io/v1/ClusterRole": cluster.check_cluster_role,
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding": cluster.check_cluster_role_binding,
    "rbac.authorization.k8s.io/v1/Role": cluster.check_role,
    "rbac.authorization.k8s.io/v1/RoleBinding": cluster.check_role_binding,
    "scheduling.k8s.io/v1/PriorityClass": data.check_priority_class,
    "storage.k8s.io/v1/StorageClass": classes.check_storage_class,
    "v1/ConfigMap": data.check_config_map,
    "v1/Endpoints": endpoints.check_endpoints,
    "v1/Event": events.check_core_event,
    "v1/LimitRange": limits.check_limit_range,
    "v1/Node": cluster.check_node,
    "v1/PersistentVolume": persistent_volumes.check_persistent_volume,
    "v1/PersistentVolumeClaim": data.check_claim,
    "v1/Pod": pods.check_pod,
    "v1/PodTemplate": templates.check_pod_template,
    "v1/ReplicationController": templates.check_replication_controller,
    "v1/ResourceQuota": data.check_quota,
    "v1/Secret": data.check_secret,
    "v1/Service": services.check_service,
}


_SUBRESOURCE_CHECKS: Final[dict[str, Check]] = {
    "v1/Pod/ephemeralcontainers": pods.check_ephemeral_containers,
    "v1/Pod/resize": pods.check_resize,
}


def validate(
    api_version: str, kind: str, obj: Json, old: Json | None = None, subresource: str = ""
) -> list[Cause]:
    """What is wrong with an object that has its defaults; metadata is checked elsewhere."""
    name = f"{api_version}/{kind}"
    check = _SUBRESOURCE_CHECKS.get(f"{name}/{subresource}") or _CHECKS.get(name)
    return [] if check is None else list(check(obj, old))
