"""Creates the objects around the Pods when they are missing, and corrects their drift."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from manta.api.meta import ObjectMeta
from manta.api.ray import names
from manta.api.resources import Resource
from manta.controllers.raycluster.facts import HasMetadata, is_ours
from manta.controllers.raycluster.leftovers import is_of_earlier_cluster, remains
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.propagated_metadata import propagated_annotations, propagated_labels
from manta.reconcile.actions import Create, Patch
from manta.reconcile.causes import ActionCause
from manta.reconcile.plan import NOTHING, Plan, Wait, do

EARLIER_OBJECT_RETRY = timedelta(seconds=2)


def ensure(
    snapshot: ClusterSnapshot,
    create: Create,
    live: HasMetadata | None,
    *,
    independent: bool = False,
) -> Plan:
    """Create the object unless it exists. An object without controller is the user's, and is kept.

    If another object controls it, the creation fails and names that object.
    """
    if live is not None:
        owner = live.metadata.controller
        if owner is None or owner.uid == snapshot.cluster.metadata.uid:
            return NOTHING
        if is_of_earlier_cluster(snapshot, live):
            # The garbage collector is about to delete it (C75): adopting it would lose it later.
            kind, name = create.resource.kind, live.metadata.name
            why = f"{kind} {name} belongs to an earlier RayCluster of this name"
            stays = remains(snapshot, kind, live)
            if independent:
                return Plan(notes=(why,), blocked_by=stays)
            wait = Wait(f"{why} and is being deleted", EARLIER_OBJECT_RETRY)
            return Plan(wait=wait, blocked_by=stays)
    return do(create, independent=independent)


def correct(
    snapshot: ClusterSnapshot,
    resource: Resource,
    live: HasMetadata,
    change: Mapping[str, Any],
    cause: ActionCause,
    why: str,
    *,
    independent: bool = False,
) -> Plan:
    """Patch an object that has drifted, if it is ours and not being deleted."""
    meta = live.metadata
    if not change or not is_ours(snapshot, live) or meta.deletion_timestamp is not None:
        return NOTHING
    patch = Patch(resource, meta.key, dict(change), cause, why, uid=meta.uid)
    return do(patch, independent=independent)


def missing_entries(wanted: Mapping[str, str], live: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations of ours that are absent or changed; those of others stay."""
    return {key: value for key, value in wanted.items() if live.get(key) != value}


def metadata_drift(wanted: Mapping[str, Any], live: ObjectMeta) -> dict[str, Any]:
    """Entries that are missing or changed, and those that the user no longer wants (None)."""
    labels, annotations = wanted.get("labels") or {}, wanted.get("annotations") or {}
    drift: dict[str, Any] = {}
    changed = missing_entries(labels, live.labels)
    if change := changed | _no_longer(propagated_labels(live.annotations), labels, live.labels):
        drift["labels"] = change
    note = names.ANNOTATION_PROPAGATED
    changed = missing_entries(
        {key: value for key, value in annotations.items() if key != note}, live.annotations
    )
    gone = _no_longer(propagated_annotations(live.annotations), annotations, live.annotations)
    if change := changed | gone:
        drift["annotations"] = change
    if drift and annotations.get(note) != live.annotations.get(note):
        # The note alone is not worth a write: objects of KubeRay and of earlier versions have none.
        drift.setdefault("annotations", {})[note] = annotations.get(note)
    return {"metadata": drift} if drift else {}


def _no_longer(
    noted: Iterable[str], wanted: Mapping[str, str], live: Mapping[str, str]
) -> dict[str, None]:
    return {key: None for key in noted if key not in wanted and key in live}


def holds(live: Any, wanted: Any) -> bool:
    """Whether `live` has everything that is wanted. Defaults that the API server adds are no drift."""
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(
            key in live and holds(live[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(live, list | tuple)
            and len(live) == len(wanted)
            and all(holds(one, other) for one, other in zip(live, wanted, strict=True))
        )
    return bool(live == wanted)
