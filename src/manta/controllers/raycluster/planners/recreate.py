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
    head = _head(seen)
    if head is None:
        return NOTHING
    if _is_of_another_version(seen, head):
        return do(_refresh(seen, head, spec_hash(seen.cluster.spec)))
    if not _differs(seen, head):
        return NOTHING
    if not seen.is_edited:
        return Plan(
            notes=("fields of the spec are hidden, say by an older CRD: no Pod is replaced",)
        )
    why = "the spec has changed and the upgrade strategy is Recreate"
    # The head goes last: it tells that there is something left to do. A worker that could not be
    # deleted keeps it, and both are deleted in the next reconcile.
    workers = do(*deletions(seen.worker_pods, Cause.SPEC_CHANGED, why))
    return workers.then(do(*deletions(seen.head_pods, Cause.SPEC_CHANGED, why), wait=Wait(why)))


def awaits_recreation(seen: ClusterSnapshot) -> bool:
    """The head was made from an earlier spec and has to go. As long as it is there, this generation
    does not count as observed, or a deletion that failed would be given up."""
    head = _head(seen)
    if head is None or _is_of_another_version(seen, head):
        return False
    return _differs(seen, head) and seen.is_edited


def recreates(seen: ClusterSnapshot) -> bool:
    strategy = seen.cluster.spec.upgrade_strategy
    return strategy is not None and strategy.type == ClusterUpgradeType.RECREATE


def _head(seen: ClusterSnapshot) -> Pod | None:
    if not recreates(seen):
        return None
    return next((pod for pod in seen.head_pods if not is_terminating(pod)), None)


def _is_of_another_version(seen: ClusterSnapshot, head: Pod) -> bool:
    version = head.metadata.annotations.get(names.ANNOTATION_OPERATOR_VERSION, "")
    return bool(version) and version != seen.settings.version


def _differs(seen: ClusterSnapshot, head: Pod) -> bool:
    known = head.metadata.annotations.get(names.ANNOTATION_RECREATE_HASH, "")
    return bool(known) and known != spec_hash(seen.cluster.spec)


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
