"""The claim on which an embedded GCS store lives: made if missing, kept or dropped as told."""

from __future__ import annotations

from manta.api.core import PersistentVolumeClaim
from manta.api.quantity import Quantity
from manta.api.resources import PERSISTENT_VOLUME_CLAIMS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.ensure import is_ours, mend, metadata_drift
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.gcs_fault_tolerance import (
    build_claim,
    claim_is_the_users,
    claim_outlives_cluster,
)
from manta.manifests.ownership import controller_reference
from manta.reconcile.actions import Create, Patch
from manta.reconcile.plan import NOTHING, Plan, do
from manta.rules.traits import StorageBackend, storage_backend


def plan_gcs_storage(seen: ClusterSnapshot) -> Plan:
    if storage_backend(seen.cluster) is not StorageBackend.ROCKSDB:
        return NOTHING
    claim = seen.gcs_claim
    if claim_is_the_users(seen.cluster):
        return NOTHING
    if claim is None:
        manifest = build_claim(seen.cluster)
        return do(Create(PERSISTENT_VOLUME_CLAIMS, manifest, Cause.GCS_CLAIM))
    return _follow_policy(seen, claim)


def _follow_policy(seen: ClusterSnapshot, claim: PersistentVolumeClaim) -> Plan:
    """Retain means that the cluster does not own it; the policy may change at any time."""
    retained, meta = claim_outlives_cluster(seen.cluster), claim.metadata
    owner = meta.controller
    if owner is not None and not is_ours(seen, claim):
        return NOTHING
    if retained == (owner is None):
        return _mend_labels(seen, claim)
    others = [one for one in meta.owner_references if one.uid != seen.cluster.metadata.uid]
    kept = [
        {"apiVersion": one.api_version, "kind": one.kind, "name": one.name, "uid": one.uid}
        for one in others
    ]
    owners = kept if retained else [*kept, controller_reference(seen.cluster)]
    patch = Patch(
        PERSISTENT_VOLUME_CLAIMS,
        meta.key,
        {"metadata": {"ownerReferences": owners}},
        Cause.GCS_CLAIM_OWNER,
        f"the deletion policy is {'Retain' if retained else 'DeleteWithCluster'}",
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
    return do(patch)


def _mend_labels(seen: ClusterSnapshot, claim: PersistentVolumeClaim) -> Plan:
    """A claim that is to outlive the cluster has no owner, and is left to the user."""
    change = metadata_drift(build_claim(seen.cluster)["metadata"], claim.metadata)
    why, cause = "its labels differed from what the RayCluster asks for", Cause.GCS_CLAIM_OWNER
    return mend(seen, PERSISTENT_VOLUME_CLAIMS, claim, change, cause, why)


def claim_drift(seen: ClusterSnapshot) -> str:
    """What the spec asks of an existing claim that a claim cannot change any more; or nothing."""
    if storage_backend(seen.cluster) is not StorageBackend.ROCKSDB:
        return ""
    claim, users = seen.gcs_claim, claim_is_the_users(seen.cluster)
    wanted = build_claim(seen.cluster)
    name = wanted["metadata"]["name"]
    if claim is None:
        return f"claim {name} does not exist: create it" if users else ""
    if users:
        return ""
    spec = wanted["spec"]
    differs = []
    size = Quantity.parse(spec["resources"]["requests"]["storage"])
    if size != Quantity.parse(claim.spec.resources.requests.get("storage", "0")):
        differs.append("size")
    if spec.get("storageClassName", claim.spec.storage_class_name) != claim.spec.storage_class_name:
        differs.append("storageClassName")
    if tuple(spec["accessModes"]) != claim.spec.access_modes:
        differs.append("accessModes")
    if not differs:
        return ""
    return f"claim {name} already exists with another {', '.join(differs)}, and stays as it is"
