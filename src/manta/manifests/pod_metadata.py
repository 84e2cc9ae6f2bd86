"""Names, labels and annotations of Ray Pods.

No template can override three labels: the cluster, the node type and the group. Caches and Services select by them
(C37). The user may override all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.naming import check_label
from manta.api.well_known import LABEL_APP_CREATED_BY, LABEL_APP_NAME
from manta.manifests.containers import Json, copy_json
from manta.manifests.ownership import controller_reference
from manta.rules.serve_config import serves_on_workers
from manta.rules.settings import Settings
from manta.rules.traits import Creator, creator, overwrites_command

# Not taken from the template's metadata: the operator sets these.
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
    """Labels of a Ray Pod. `extra` are the `labels` of the group, which win over the template's."""
    name = cluster.metadata.name
    user = {**((template.get("metadata") or {}).get("labels") or {}), **extra}
    labels = {
        names.LABEL_IS_RAY_NODE: names.IS_RAY_NODE,
        names.LABEL_IDENTIFIER: check_label(f"{name}-{node_type}"),
        LABEL_APP_NAME: names.APPLICATION_NAME,
        LABEL_APP_CREATED_BY: names.OPERATOR_NAME,
        **user,
        names.LABEL_CLUSTER: name,
        names.LABEL_NODE_TYPE: node_type,
        names.LABEL_GROUP: group,
    }
    if creator(cluster.metadata) is Creator.SERVICE:
        # A head gets the label only after its Serve proxy has answered (C53).
        serves = node_type == names.NODE_WORKER and serves_on_workers(cluster.metadata)
        labels[names.LABEL_SERVE] = names.SERVE_TRUE if serves else names.SERVE_FALSE
    return labels


def pod_annotations(
    cluster: RayCluster, template: Mapping[str, Any], extra: Mapping[str, str]
) -> dict[str, str]:
    annotations = {**((template.get("metadata") or {}).get("annotations") or {}), **extra}
    if overwrites_command(cluster.metadata.annotations):
        # The cluster can only turn it on, for all groups; each template can too.
        annotations[names.ANNOTATION_OVERWRITE_COMMAND] = "true"
    return annotations


def with_annotations(meta: Json, annotations: Mapping[str, str]) -> Json:
    """The metadata with more annotations; itself if there are none."""
    if not annotations:
        return meta
    return {**meta, "annotations": {**meta.get("annotations", {}), **annotations}}


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
