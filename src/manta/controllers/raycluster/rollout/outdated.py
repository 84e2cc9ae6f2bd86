"""Which Pods are outdated: built now from their revision, they would differ from those of the target.

Both are built by this operator, with its settings and the cluster's metadata of now. So another version of
the operator, other settings or other annotations make no Pod outdated, and neither does a field of the spec
that reaches no Pod.
"""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster, RayClusterSpec, WorkerGroupSpec
from manta.controllers.raycluster.rollout.revisions import Revisions, was_complete
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.head_pod import build_head_pod
from manta.manifests.worker_pod import group_pod_builder
from manta.rules.revisions import restored, spec_in, without_queue_additions
from manta.rules.settings import Settings


def outdated_pods(snapshot: ClusterSnapshot, revisions: Revisions) -> frozenset[str]:
    """Names of Pods. A Pod of an unknown revision is outdated; without a target none is."""
    if revisions.target is None:
        return frozenset()
    differing: dict[tuple[str, str], bool] = {}
    found: set[str] = set()
    for pod in snapshot.pods:
        if pod.metadata.annotations.get(names.ANNOTATION_POD_REVISION) == revisions.name:
            continue
        revision = revisions.of_pod(pod)
        if revision is revisions.target:
            continue
        group = pod.metadata.labels.get(names.LABEL_GROUP, "")
        key = (revision.metadata.name if revision else "", group)
        if key not in differing:
            data = revision.data if revision else None
            differing[key] = data is None or _differs(snapshot, revisions.spec, data, group)
        if differing[key]:
            found.add(pod.metadata.name)
    return frozenset(found)


def touched_groups(snapshot: ClusterSnapshot, revisions: Revisions) -> frozenset[str]:
    """Names of the worker groups whose Pods the update changes, and of those that it adds. At first, all of them."""
    target, groups = revisions.target, revisions.spec.worker_group_specs
    if target is None:
        return frozenset()
    if not revisions.replaced and not was_complete(target):
        return frozenset(one.group_name for one in groups)
    return frozenset(
        one.group_name
        for one in groups
        if any(_touches(snapshot, revisions.spec, old.data, one) for old in revisions.replaced)
    )


def _touches(
    snapshot: ClusterSnapshot, wanted: RayClusterSpec, data: dict[str, Any], group: WorkerGroupSpec
) -> bool:
    known = {one.group_name for one in spec_in(data).worker_group_specs}
    name = group.group_name
    return name not in known or _differs(snapshot, wanted, data, name)


def _differs(
    snapshot: ClusterSnapshot, wanted: RayClusterSpec, data: dict[str, Any], group: str
) -> bool:
    before = restored(wanted, data)
    built = [build(snapshot.cluster, one, group, snapshot.settings) for one in (before, wanted)]
    return bool(built[0] != built[1])


def build(cluster: RayCluster, spec: RayClusterSpec, group: str, settings: Settings) -> Any:
    """What the Pods of a group have in common. None for a group that is not in the spec."""
    spec = without_queue_additions(spec)
    cluster = msgspec.structs.replace(cluster, spec=spec)
    if group == names.HEAD_GROUP:
        return build_head_pod(cluster, settings, spec_hash="")
    found = next((one for one in spec.worker_group_specs if one.group_name == group), None)
    if found is None:
        return None
    return found.num_of_hosts, group_pod_builder(cluster, found, settings)
