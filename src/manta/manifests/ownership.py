"""Owner references, by which the garbage collector deletes the objects of a RayCluster (C74)."""

from __future__ import annotations

from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.manifests.containers import Json


def controller_reference(cluster: RayCluster) -> Json:
    return RAY_CLUSTERS.controller_reference(cluster.metadata)


def owned_by(cluster: RayCluster, manifest: Json) -> Json:
    """The manifest with this cluster as its controller."""
    meta = {**manifest["metadata"], "ownerReferences": [controller_reference(cluster)]}
    return {**manifest, "metadata": meta}
