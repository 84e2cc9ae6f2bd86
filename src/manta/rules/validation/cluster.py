"""The rules that a RayCluster must keep, beyond what its schema says."""

from __future__ import annotations

from manta.api.names import dns1035_label_errors
from manta.api.ray.cluster import RayCluster
from manta.api.ray.naming import MAX_RAY_CLUSTER_NAME
from manta.rules.settings import Settings
from manta.rules.validation.violation import Violation


def cluster_violations(cluster: RayCluster, settings: Settings) -> tuple[Violation, ...]:
    name = cluster.metadata.name
    found: list[Violation] = []
    if len(name) > MAX_RAY_CLUSTER_NAME:
        found.append(
            Violation(
                "metadata.name", name, f"must be no more than {MAX_RAY_CLUSTER_NAME} characters"
            )
        )
    found += [Violation("metadata.name", name, error) for error in dns1035_label_errors(name)]
    return tuple(found)
