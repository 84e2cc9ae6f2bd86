"""Which Pods are deleted first when a group shrinks: always in the same order (C05).

Pods that are not scheduled, then not running, then not ready (C18). Among equals the newest, then the
highest replica index, then the name.
"""

from __future__ import annotations

from collections.abc import Iterable

from manta.api.core import Pod
from manta.api.numbers import parse_count
from manta.api.ray import names
from manta.rules.pod_health import is_ready, is_running


def in_scale_down_order(pods: Iterable[Pod]) -> list[Pod]:
    # Newest first, then the stable sort by readiness keeps that order among equals.
    by_age = sorted(pods, key=_age, reverse=True)
    return sorted(by_age, key=readiness_rank)


def readiness_rank(pod: Pod) -> int:
    """0 for a Pod without a node, up to 3 for a ready one."""
    if is_ready(pod):
        return 3
    if is_running(pod):
        return 2
    return 1 if pod.spec.node_name else 0


def _age(pod: Pod) -> tuple[str, int, str]:
    index = parse_count(pod.metadata.labels.get(names.LABEL_REPLICA_INDEX, ""))
    return (pod.metadata.creation_timestamp, -1 if index is None else index, pod.metadata.name)
