"""The claim of an embedded GCS store, kept or deleted with the cluster by its policy."""

from __future__ import annotations

from manta.api.core import PersistentVolumeClaim
from manta.api.resources import PERSISTENT_VOLUME_CLAIMS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import is_ours
from manta.controllers.raycluster.planners.ensure import correct, metadata_drift
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.gcs_fault_tolerance import (
    build_claim,
    claim_is_the_users,
    claim_outlives_cluster,
)
from manta.manifests.ownership import controller_reference
from manta.reconcile.actions import Create, OnExists, Patch
from manta.reconcile.plan import NOTHING, Plan, do
from manta.rules.traits import StorageBackend, storage_backend


def plan_gcs_storage(snapshot: ClusterSnapshot) -> Plan:
    if storage_backend(snapshot.cluster) is not StorageBackend.ROCKSDB:
        return NOTHING
    claim = snapshot.gcs_claim
    if claim_is_the_users(snapshot.cluster):
        return NOTHING
    if claim is None:
        manifest = build_claim(snapshot.cluster)
        return do(
            Create(PERSISTENT_VOLUME_CLAIMS, manifest, Cause.GCS_CLAIM, on_exists=OnExists.USE)
        )
    return _follow_policy(snapshot, claim)


def _follow_policy(snapshot: ClusterSnapshot, claim: PersistentVolumeClaim) -> Plan:
    """With Retain the cluster does not own the claim. The policy may change at any time."""
    retained, meta = claim_outlives_cluster(snapshot.cluster), claim.metadata
    owner = meta.controller
    if owner is not None and not is_ours(snapshot, claim):
        return NOTHING
    if retained == (owner is None):
        return _correct_labels(snapshot, claim)
    others = [one for one in meta.owner_references if one.uid != snapshot.cluster.metadata.uid]
    kept = [
        {"apiVersion": one.api_version, "kind": one.kind, "name": one.name, "uid": one.uid}
        for one in others
    ]
    owners = kept if retained else [*kept, controller_reference(snapshot.cluster)]
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


def _correct_labels(snapshot: ClusterSnapshot, claim: PersistentVolumeClaim) -> Plan:
    """A retained claim has no owner, and is the user's."""
    change = metadata_drift(build_claim(snapshot.cluster)["metadata"], claim.metadata)
    why, cause = "its labels differed from what the RayCluster asks for", Cause.GCS_CLAIM_OWNER
    return correct(snapshot, PERSISTENT_VOLUME_CLAIMS, claim, change, cause, why)
