"""Permissions of the autoscaler: watch its Pods and resize its RayCluster."""

from __future__ import annotations

from typing import Any

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.naming import check_name
from manta.api.well_known import LABEL_APP_CREATED_BY, LABEL_APP_NAME
from manta.manifests.containers import Json
from manta.manifests.ownership import owned_by
from manta.rules.traits import service_account_name

_GROUP = "rbac.authorization.k8s.io"


def rbac_name(cluster: RayCluster) -> str:
    return check_name(cluster.metadata.name)


def build_service_account(cluster: RayCluster) -> Json:
    meta = _meta(cluster, service_account_name(cluster))
    return owned_by(cluster, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})


def autoscaler_rules() -> list[dict[str, Any]]:
    return [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
        {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
    ]


def build_role(cluster: RayCluster) -> Json:
    role = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "Role",
        "metadata": _meta(cluster, rbac_name(cluster)),
        "rules": autoscaler_rules(),
    }
    return owned_by(cluster, role)


def build_role_binding(cluster: RayCluster) -> Json:
    subject = {
        "kind": "ServiceAccount",
        "name": service_account_name(cluster),
        "namespace": cluster.metadata.namespace,
    }
    binding = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": _meta(cluster, rbac_name(cluster)),
        "subjects": [subject],
        "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": rbac_name(cluster)},
    }
    return owned_by(cluster, binding)


def _meta(cluster: RayCluster, name: str) -> Json:
    labels = {
        names.LABEL_CLUSTER: cluster.metadata.name,
        LABEL_APP_NAME: names.APPLICATION_NAME,
        LABEL_APP_CREATED_BY: names.OPERATOR_NAME,
    }
    return {"name": name, "namespace": cluster.metadata.namespace, "labels": labels}
