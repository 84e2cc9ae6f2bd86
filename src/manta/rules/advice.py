"""Warnings about specs that are valid but probably not what the user intends."""

from __future__ import annotations

from collections.abc import Iterator

from manta.api.ray.cluster import AutoscalerVersion, RayClusterSpec
from manta.rules.scaling import max_replicas, min_replicas
from manta.rules.traits import autoscaler_version, autoscaling
from manta.rules.validation.violation import Violation


def cluster_advice(spec: RayClusterSpec) -> Iterator[Violation]:
    for number, group in enumerate(spec.worker_group_specs):
        where = f"spec.workerGroupSpecs[{number}]"
        low, high = min_replicas(group), max_replicas(group)
        # The API server defaults an absent `replicas` to 0: that needs no warning.
        if group.replicas and not low <= group.replicas <= high:
            held = f"is held between minReplicas ({low}) and maxReplicas ({high})"
            yield Violation(f"{where}.replicas", group.replicas, held)
        policy = (group.template.get("spec") or {}).get("restartPolicy") or ""
        is_v1 = autoscaling(spec) and autoscaler_version(spec) == AutoscalerVersion.V1
        if is_v1 and policy not in ("", "Never"):
            cure = "should be Never with autoscaler v1: a restarted worker confuses it"
            yield Violation(f"{where}.template.spec.restartPolicy", policy, cure)
