"""By which labels caches select what the operator owns; one spelling, so that caches are shared."""

from __future__ import annotations

from typing import Final

from manta.api.ray import names

RAY_PODS: Final = (
    f"{names.LABEL_NODE_TYPE} in ({names.NODE_HEAD},{names.NODE_WORKER},{names.NODE_REDIS_CLEANUP})"
)
"""A label that no template can override (C37): every Pod that we make, and no other."""

CLEANUP_JOBS: Final = f"{names.LABEL_NODE_TYPE}={names.NODE_REDIS_CLEANUP}"

SUBMITTER_PODS: Final = f"{names.LABEL_ORIGIN_KIND}=RayJob,batch.kubernetes.io/job-name"
"""Pods of the Jobs that submit for RayJobs; a cluster's own Pods belong to no Job."""

OF_A_CLUSTER: Final = names.LABEL_CLUSTER
"""Roles, Ingresses, Secrets: whatever says which RayCluster it belongs to."""
