"""`upgradeStrategy: Recreate`: a changed spec replaces all Pods at once.

It compares hashes of specs, never live Pods, so that defaults and injected sidecars cannot cause a
loop (C22).
"""

from __future__ import annotations

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.resources import PODS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import (
    has_another_spec,
    head_to_compare,
    is_of_another_version,
)
from manta.controllers.raycluster.planners.pod_deletions import deletions
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.actions import Patch
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.rules.spec_hash import spec_hash


def plan_recreate_upgrade(snapshot: ClusterSnapshot) -> Plan:
    head = head_to_compare(snapshot)
    if head is None:
        return NOTHING
    if is_of_another_version(snapshot, head):
        return do(_update_hash(snapshot, head, spec_hash(snapshot.cluster.spec)))
    if not has_another_spec(snapshot, head):
        return NOTHING
    if not snapshot.is_edited:
        return Plan(notes=("an older CRD may prune fields of the spec: no Pod is replaced",))
    why = "the spec has changed and the upgrade strategy is Recreate"
    # The head is deleted last, because its annotation says that something is left to do. If a worker
    # cannot be deleted, the next reconcile deletes both.
    workers = do(*deletions(snapshot.worker_pods, Cause.SPEC_CHANGED, why))
    return workers.then(do(*deletions(snapshot.head_pods, Cause.SPEC_CHANGED, why), wait=Wait(why)))


def _update_hash(snapshot: ClusterSnapshot, head: Pod, wanted: str) -> Patch:
    """Another version of the operator hashes differently: update the annotation, replace no Pod."""
    annotations = {
        names.ANNOTATION_RECREATE_HASH: wanted,
        names.ANNOTATION_OPERATOR_VERSION: snapshot.settings.version,
    }
    return Patch(
        PODS,
        head.metadata.key,
        {"metadata": {"annotations": annotations}},
        Cause.OPERATOR_CHANGED,
        "another version of the operator created the head Pod",
        uid=head.metadata.uid,
    )
