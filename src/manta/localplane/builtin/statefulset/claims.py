"""Who owns the claims of a StatefulSet, by its retention policy. Pure.

`whenDeleted: Delete` lets the StatefulSet own them, `whenScaled: Delete` the Pod that is scaled
away; the garbage collector does the rest. `Retain` leaves them without an owner of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from manta.api.meta import ObjectMeta
from manta.api.resources import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, Resource
from manta.localplane.builtin.statefulset.identity import claim_names, pod_name
from manta.localplane.builtin.statefulset.snapshot import StatefulSetSnapshot
from manta.localplane.builtin.views import Claim, as_json
from manta.localplane.builtin.workload_views import RetentionPolicy
from manta.reconcile.actions import Patch
from manta.reconcile.causes import ActionCause
from manta.reconcile.plan import Plan, do


def plan_retention(snapshot: StatefulSetSnapshot, cause: ActionCause) -> Plan:
    there = {one.metadata.name: one for one in snapshot.claims}
    patches = []
    for name, wanted in _wanted_owners(snapshot):
        claim = there.get(name)
        if claim is not None and (owners := _change(snapshot, claim, wanted)) is not None:
            meta = claim.metadata
            change = {"metadata": {"ownerReferences": owners or None}}
            patches.append(
                Patch(
                    PERSISTENT_VOLUME_CLAIMS,
                    meta.key,
                    change,
                    cause,
                    uid=meta.uid,
                    resource_version=meta.resource_version,
                )
            )
    return do(*patches)


def _wanted_owners(
    snapshot: StatefulSetSnapshot,
) -> Iterator[tuple[str, tuple[Resource, ObjectMeta] | None]]:
    """Each claim's name, with the owner that it should have."""
    stateful_set = snapshot.stateful_set
    policy = stateful_set.spec.persistent_volume_claim_retention_policy or RetentionPolicy()
    lasting = (STATEFUL_SETS, stateful_set.metadata) if policy.when_deleted == "Delete" else None
    members = snapshot.members
    for ordinal in {*members, *stateful_set.wanted}:
        scaled_away = policy.when_scaled == "Delete" and ordinal not in stateful_set.wanted
        owner = (PODS, members[ordinal].metadata) if scaled_away else lasting
        for name in claim_names(stateful_set, pod_name(stateful_set, ordinal)).values():
            yield name, owner


def _change(
    snapshot: StatefulSetSnapshot, claim: Claim, wanted: tuple[Resource, ObjectMeta] | None
) -> list[dict[str, Any]] | None:
    """The new owner references; None where they are right already. Others' references stay."""
    ours = {snapshot.stateful_set.metadata.uid, *(pod.metadata.uid for pod in snapshot.pods)}
    present = claim.metadata.owner_references
    if {one.uid for one in present if one.uid in ours} == ({wanted[1].uid} if wanted else set()):
        return None
    kept: list[dict[str, Any]] = as_json([one for one in present if one.uid not in ours])
    if wanted is None:
        return kept
    resource, meta = wanted
    reference = resource.owner_reference(meta)
    return [*kept, reference]
