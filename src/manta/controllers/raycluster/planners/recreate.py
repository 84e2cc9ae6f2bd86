"""`upgradeStrategy: Recreate`: a changed spec replaces all Pods at once.

Compared are hashes of what we submitted, never live objects: defaults and sidecars that others
inject into Pods cannot cause a loop (C22).
"""

from __future__ import annotations

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import ClusterUpgradeType
from manta.api.resources import PODS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.worker_group import deletions
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.actions import Patch
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.rules.pod_health import is_terminating
from manta.rules.spec_hash import spec_hash


def plan_recreate_upgrade(seen: ClusterSnapshot) -> Plan:
    strategy = seen.cluster.spec.upgrade_strategy
    if strategy is None or strategy.type != ClusterUpgradeType.RECREATE:
        return NOTHING
    head = next((pod for pod in seen.head_pods if not is_terminating(pod)), None)
    if head is None:
        return NOTHING
    wanted = spec_hash(seen.cluster.spec)
    annotations = head.metadata.annotations
    version = annotations.get(names.ANNOTATION_OPERATOR_VERSION, "")
    if version and version != seen.settings.version:
        return do(_refresh(seen, head, wanted))
    known = annotations.get(names.ANNOTATION_RECREATE_HASH, "")
    if not known or known == wanted:
        return NOTHING
    why = "the spec has changed and the upgrade strategy is Recreate"
    return do(*deletions(seen.pods, Cause.SPEC_CHANGED, why), wait=Wait(why))


def _refresh(seen: ClusterSnapshot, head: Pod, wanted: str) -> Patch:
    """Another operator version hashes differently: its hash says nothing. Take note, replace none."""
    annotations = {
        names.ANNOTATION_RECREATE_HASH: wanted,
        names.ANNOTATION_OPERATOR_VERSION: seen.settings.version,
    }
    return Patch(
        PODS,
        head.metadata.key,
        {"metadata": {"annotations": annotations}},
        Cause.OPERATOR_CHANGED,
        "the head Pod was made by another version of the operator",
        uid=head.metadata.uid,
    )
