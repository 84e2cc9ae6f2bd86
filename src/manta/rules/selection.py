"""Label selectors and indexes of the operator's informers. Equal selectors share one informer."""

from __future__ import annotations

from typing import Final

from manta.api.meta import Key, Object
from manta.api.ray import names
from manta.api.well_known import LABEL_JOB_NAME

RAY_PODS: Final = (
    f"{names.LABEL_NODE_TYPE} in ({names.NODE_HEAD},{names.NODE_WORKER},{names.NODE_REDIS_CLEANUP})"
)
"""Every Pod that the operator creates, and no other: no template can override the label (C37)."""

CLEANUP_JOBS: Final = f"{names.LABEL_NODE_TYPE}={names.NODE_REDIS_CLEANUP}"

SUBMITTER_PODS: Final = f"{names.LABEL_ORIGIN_KIND}=RayJob,{LABEL_JOB_NAME}"
"""Pods of submitter Jobs; a cluster's own Pods belong to no Job."""

OF_A_CLUSTER: Final = names.LABEL_CLUSTER
"""Roles, Ingresses, Secrets and others with the label of a RayCluster."""

BY_CLUSTER: Final = "ray cluster"
"""Index: objects by the namespace and name of the RayCluster that their label names."""


def by_cluster(one: Object) -> tuple[str, ...]:
    name = one.metadata.labels.get(names.LABEL_CLUSTER)
    return (str(Key(one.metadata.namespace, name)),) if name else ()
