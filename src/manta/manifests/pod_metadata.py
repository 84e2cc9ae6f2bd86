"""Names, labels and annotations of Ray Pods.

Three labels are ours alone, whatever a template says: which cluster, which kind of node, which
group. Caches and Services select by them (C37). Everything else a user may override.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.naming import check_label
from manta.manifests.containers import Json, copy_json
from manta.manifests.ownership import controller_reference
from manta.rules.serve_config import serves_on_workers
from manta.rules.settings import Settings
from manta.rules.traits import Creator, creator, overwrites_command

# Kept from the template's metadata; the name, namespace and owner of a Ray Pod are ours.
_NOT_FROM_TEMPLATE = (
    "name",
    "generateName",
    "namespace",
    "ownerReferences",
    "labels",
    "annotations",
)


def pod_labels(
    cluster: RayCluster,
    template: Mapping[str, Any],
    *,
    node_type: str,
    group: str,
    extra: Mapping[str, str],
) -> dict[str, str]:
    """`extra` are the group's own `labels`: they win over the template's."""
    name = cluster.metadata.name
    user = {**((template.get("metadata") or {}).get("labels") or {}), **extra}
    labels = {
        names.LABEL_IS_RAY_NODE: names.IS_RAY_NODE,
        names.LABEL_IDENTIFIER: check_label(f"{name}-{node_type}"),
        names.LABEL_APP_NAME: names.APPLICATION_NAME,
        names.LABEL_APP_CREATED_BY: names.OPERATOR_NAME,
        **user,
        names.LABEL_CLUSTER: name,
        names.LABEL_NODE_TYPE: node_type,
        names.LABEL_GROUP: group,
    }
    if creator(cluster.metadata) is Creator.SERVICE:
        # A head joins the serving Pods only after its proxy answered (C53).
        serves = node_type == names.NODE_WORKER and serves_on_workers(cluster.metadata)
        labels[names.LABEL_SERVE] = names.SERVE_TRUE if serves else names.SERVE_FALSE
    return labels


def pod_annotations(
    cluster: RayCluster, template: Mapping[str, Any], extra: Mapping[str, str]
) -> dict[str, str]:
    annotations = {**((template.get("metadata") or {}).get("annotations") or {}), **extra}
    if overwrites_command(cluster.metadata.annotations):
        # The cluster can only turn it on, for all groups; off is what each template says.
        annotations[names.ANNOTATION_OVERWRITE_COMMAND] = "true"
    return annotations


def build_metadata(
    cluster: RayCluster,
    template: Mapping[str, Any],
    settings: Settings,
    *,
    name: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> Json:
    kept = {
        key: copy_json(value)
        for key, value in (template.get("metadata") or {}).items()
        if key not in _NOT_FROM_TEMPLATE
    }
    meta: Json = {
        **kept,
        "name": name,
        "namespace": cluster.metadata.namespace,
        "labels": {**settings.default_pod_labels, **labels},
        "ownerReferences": [controller_reference(cluster)],
    }
    merged = {**settings.default_pod_annotations, **annotations}
    return meta | ({"annotations": merged} if merged else {})
