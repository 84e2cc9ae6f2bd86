"""The hash that says whether a change of spec needs new Pods or a new cluster.

It ignores what may change without either: the number of replicas, its bounds, the workers to
delete, the upgrade strategy, suspension, and the tolerations and gates that queueing systems add.
Only our own hashes are ever compared: the annotation beside it names the operator that wrote it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from manta.api.ray.cluster import RayClusterSpec, ScaleStrategy, WorkerGroupSpec

_ADDED_BY_QUEUES = ("tolerations", "schedulingGates")


def spec_hash(spec: RayClusterSpec, *, worker_groups: int | None = None) -> str:
    """With `worker_groups`, only that many groups count: groups appended later change nothing."""
    muted = essence(spec, worker_groups=worker_groups)
    digest = hashlib.sha1(msgspec.json.encode(muted, order="sorted"), usedforsecurity=False)
    return base64.b32hexencode(digest.digest()).decode()


def essence(spec: RayClusterSpec, *, worker_groups: int | None = None) -> RayClusterSpec:
    """What the hash is made of: the spec without what may change where a cluster stands."""
    head = msgspec.structs.replace(
        spec.head_group_spec, template=_muted_template(spec.head_group_spec.template)
    )
    groups = tuple(_muted_group(group) for group in spec.worker_group_specs[:worker_groups])
    return msgspec.structs.replace(
        spec, head_group_spec=head, worker_group_specs=groups, upgrade_strategy=None, suspend=None
    )


def _muted_group(group: WorkerGroupSpec) -> WorkerGroupSpec:
    return msgspec.structs.replace(
        group,
        replicas=None,
        min_replicas=None,
        max_replicas=None,
        scale_strategy=ScaleStrategy(),
        priority=group.priority or None,  # 0 is what a newer CRD fills in
        template=_muted_template(group.template),
    )


def _muted_template(template: Mapping[str, Any]) -> dict[str, Any]:
    spec = template.get("spec") or {}
    kept = {key: value for key, value in spec.items() if key not in _ADDED_BY_QUEUES}
    return {**template, "spec": kept}
