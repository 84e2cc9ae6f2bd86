"""Plans the garbage collection of one object. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from manta.api.meta import ObjectMeta, OwnerReference, Uid
from manta.localplane.builtin.garbage_collector.graph import Entry
from manta.localplane.builtin.garbage_collector.snapshot import (
    FOREGROUND,
    ORPHAN,
    ItemSnapshot,
    OwnerState,
    is_deleting_in_foreground,
)
from manta.localplane.builtin.ownership import without_finalizer
from manta.reconcile.actions import Call, Patch, Propagation
from manta.reconcile.causes import ONLY_FAILURES, ActionCause
from manta.reconcile.plan import NOTHING, Plan, Wait, do

DELETE_UNCHANGED = "delete if it is unchanged"


class Cause(ActionCause):
    COLLECT = ONLY_FAILURES, "no owner is left"
    FORGET = ONLY_FAILURES, "an owner is gone, others are left"
    ORPHANED = ONLY_FAILURES, "its owner is deleted and leaves it behind"
    RELEASED = ONLY_FAILURES, "nothing is left that the deletion had to wait for"


def plan(snapshot: ItemSnapshot) -> Plan:
    meta = snapshot.item.meta
    if meta.deletion_timestamp is not None:
        return _plan_leaving(snapshot)
    if any(owner.state is OwnerState.UNKNOWN for owner in snapshot.owners):
        return Plan(wait=Wait("the kind of an owner is not served", backoff=True))
    return _plan_owned(snapshot)


# ── an object that is being deleted ──────────────────────────────────────────────────────
def _plan_leaving(snapshot: ItemSnapshot) -> Plan:
    meta = snapshot.item.meta
    if ORPHAN in meta.finalizers:
        return _orphan(snapshot.dependents, meta.uid).then(_release(snapshot.item, ORPHAN))
    if FOREGROUND in meta.finalizers and not any(
        _blocks(dependent, meta.uid) for dependent in snapshot.dependents
    ):
        return _release(snapshot.item, FOREGROUND)
    return NOTHING


def _orphan(dependents: Iterable[Entry], owner: Uid) -> Plan:
    return do(*(_forget(entry, {owner}, Cause.ORPHANED) for entry in dependents))


def _release(item: Entry, finalizer: str) -> Plan:
    patch = without_finalizer(item.meta, finalizer)
    return do(Patch(item.resource, item.meta.key, patch, Cause.RELEASED, kind="json"))


def _blocks(dependent: Entry, owner: Uid) -> bool:
    return any(
        ref.uid == owner and ref.block_owner_deletion for ref in dependent.meta.owner_references
    )


# ── an object that has owners ────────────────────────────────────────────────────────────
def _plan_owned(snapshot: ItemSnapshot) -> Plan:
    if not snapshot.owners:
        return NOTHING
    states = {owner.state for owner in snapshot.owners}
    if OwnerState.SOLID in states:
        gone = {owner.ref.uid for owner in snapshot.owners if owner.state is not OwnerState.SOLID}
        return do(_forget(snapshot.item, gone, Cause.FORGET)) if gone else NOTHING
    meta = snapshot.item.meta
    how = _propagation(snapshot, waiting=OwnerState.WAITING in states)
    # Not a plain Delete: an object that was orphaned a moment ago must survive, although the watch
    # event is still on its way.
    facts = {
        "resource": snapshot.item.resource,
        "uid": meta.uid,
        "resource_version": meta.resource_version,
        "propagation": how,
    }
    return do(Call(DELETE_UNCHANGED, meta.key, Cause.COLLECT, arguments=facts))


def _propagation(snapshot: ItemSnapshot, *, waiting: bool) -> Propagation:
    """The propagation that the object asks for by its finalizers; below a foreground deletion in the foreground.

    Dependents that already go in the foreground would wait for us while we wait for them: such a
    ring is opened by going at once.
    """
    if waiting and snapshot.dependents:
        ring = any(is_deleting_in_foreground(dependent.meta) for dependent in snapshot.dependents)
        return "Background" if ring else "Foreground"
    finalizers = snapshot.item.meta.finalizers
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _forget(entry: Entry, owners: set[Uid], cause: Cause) -> Patch:
    """Remove these owner references, if the object is still at this version."""
    kept = [_reference(ref) for ref in entry.meta.owner_references if ref.uid not in owners]
    return Patch(
        entry.resource,
        entry.meta.key,
        {"metadata": {"ownerReferences": kept or None}},
        cause,
        uid=entry.meta.uid,
        resource_version=entry.meta.resource_version,
    )


def _reference(ref: OwnerReference) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(ref)
    return fields


def is_settled(meta: ObjectMeta) -> bool:
    """Nothing to do: it has no owners, or only a finalizer of others holds it."""
    if meta.deletion_timestamp is not None:
        return FOREGROUND not in meta.finalizers and ORPHAN not in meta.finalizers
    return not meta.owner_references
