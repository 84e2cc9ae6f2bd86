"""How every object around the Pods is kept: made when missing, mended where it is ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, Protocol

from manta.api.meta import ObjectMeta
from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import Resource
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.passed_on import noted_annotations, noted_labels
from manta.reconcile.actions import Create, Manifest, Patch
from manta.reconcile.plan import NOTHING, Plan, Wait, do

EARLIER_OBJECT_RETRY = timedelta(seconds=2)


class HasMetadata(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


def is_ours(seen: ClusterSnapshot, live: HasMetadata) -> bool:
    owner = live.metadata.controller
    return owner is not None and owner.uid == seen.cluster.metadata.uid


def ensure(
    seen: ClusterSnapshot,
    resource: Resource,
    manifest: Manifest,
    live: HasMetadata | None,
    cause: StrEnum,
    *,
    independent: bool = False,
    secret_data: tuple[str, ...] = (),
) -> Plan:
    """Make the object unless it is there. What nobody controls is accepted as the user's own.

    A name that someone else controls cannot be had: the attempt fails and says whose it is.
    """
    if live is not None:
        owner = live.metadata.controller
        if owner is None or owner.uid == seen.cluster.metadata.uid:
            return NOTHING
        if owner.kind == RAY_CLUSTERS.kind and owner.name == seen.cluster.metadata.name:
            # The garbage collector is about to remove it (C75): adopting it would lose it later.
            why = f"{resource.kind} {live.metadata.name} belongs to an earlier RayCluster of this name"
            if independent:
                return Plan(notes=(why,))
            return Plan(wait=Wait(f"{why} and is going away", EARLIER_OBJECT_RETRY))
    create = Create(resource, manifest, cause, secret_data=secret_data)
    return do(create, independent=independent)


def mend(
    seen: ClusterSnapshot,
    resource: Resource,
    live: HasMetadata,
    change: Mapping[str, Any],
    cause: StrEnum,
    why: str,
    *,
    independent: bool = False,
) -> Plan:
    """Patch what has drifted, if the object is ours and not on its way out."""
    meta = live.metadata
    if not change or not is_ours(seen, live) or meta.deletion_timestamp is not None:
        return NOTHING
    patch = Patch(resource, meta.key, dict(change), cause, why, uid=meta.uid)
    return do(patch, independent=independent)


def missing_entries(wanted: Mapping[str, str], live: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations of ours that are absent or changed; those of others stay."""
    return {key: value for key, value in wanted.items() if live.get(key) != value}


def metadata_drift(wanted: Mapping[str, Any], live: ObjectMeta) -> dict[str, Any]:
    """What is missing or changed, and what the user no longer asks for (None: it goes)."""
    labels, annotations = wanted.get("labels") or {}, wanted.get("annotations") or {}
    drift: dict[str, Any] = {}
    changed = missing_entries(labels, live.labels)
    if change := changed | _no_longer(noted_labels(live.annotations), labels, live.labels):
        drift["labels"] = change
    note = names.ANNOTATION_PASSED_ON
    changed = missing_entries(
        {key: value for key, value in annotations.items() if key != note}, live.annotations
    )
    gone = _no_longer(noted_annotations(live.annotations), annotations, live.annotations)
    if change := changed | gone:
        drift["annotations"] = change
    if drift and annotations.get(note) != live.annotations.get(note):
        # The note alone is worth no write: objects of earlier versions, and KubeRay's, have none.
        drift.setdefault("annotations", {})[note] = annotations.get(note)
    return {"metadata": drift} if drift else {}


def _no_longer(
    noted: Iterable[str], wanted: Mapping[str, str], live: Mapping[str, str]
) -> dict[str, None]:
    return {key: None for key in noted if key not in wanted and key in live}


def holds(live: Any, wanted: Any) -> bool:
    """Whether all that we ask for is there. What the server filled in beside it is no drift, or
    we would correct its defaults for ever."""
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
