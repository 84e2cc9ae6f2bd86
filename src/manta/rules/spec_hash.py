"""A hash of a RayCluster spec, to detect changes that need new Pods or a new cluster.

It ignores fields that need neither: replicas and their bounds, workersToDelete, the upgrade strategy, suspend,
and the tolerations and gates that queueing systems add. Only hashes of this operator are compared: another
annotation names the operator that wrote the hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from manta.api.ray.cluster import RayClusterSpec, ScaleStrategy, WorkerGroupSpec

ADDED_BY_QUEUES = ("tolerations", "schedulingGates")


def spec_hash(spec: RayClusterSpec, *, worker_groups: int | None = None) -> str:
    """The hash. With `worker_groups`, only the first so many groups count, so that appended groups do not
    change it."""
    muted = hashed_part(spec, worker_groups=worker_groups)
    digest = hashlib.sha1(msgspec.json.encode(muted, order="sorted"), usedforsecurity=False)
    return base64.b32hexencode(digest.digest()).decode()


def hashed_part(spec: RayClusterSpec, *, worker_groups: int | None = None) -> RayClusterSpec:
    """The part of the spec that is hashed."""
    head = msgspec.structs.replace(
        spec.head_group_spec, template=without_queue_fields(spec.head_group_spec.template)
    )
    groups = tuple(_hashed_group(group) for group in spec.worker_group_specs[:worker_groups])
    return msgspec.structs.replace(
        spec, head_group_spec=head, worker_group_specs=groups, upgrade_strategy=None, suspend=None
    )


def _hashed_group(group: WorkerGroupSpec) -> WorkerGroupSpec:
    return msgspec.structs.replace(
        group,
        replicas=None,
        min_replicas=None,
        max_replicas=None,
        scale_strategy=ScaleStrategy(),
        priority=group.priority or None,  # a newer CRD defaults it to 0
        template=without_queue_fields(group.template),
    )


def without_queue_fields(template: Mapping[str, Any]) -> dict[str, Any]:
    """A Pod template without what queueing systems add to it."""
    spec = template.get("spec") or {}
    kept = {key: value for key, value in spec.items() if key not in ADDED_BY_QUEUES}
    return {**template, "spec": kept}
