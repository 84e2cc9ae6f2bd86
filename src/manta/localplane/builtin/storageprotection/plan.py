"""When a claim or a volume that was deleted may really go. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from manta.api.meta import ObjectMeta, View
from manta.api.resources import PERSISTENT_VOLUME_CLAIMS, Resource
from manta.reconcile.actions import Patch
from manta.reconcile.plan import NOTHING, Plan, do

PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


class Cause(StrEnum):
    CLAIM_FREE = "no Pod uses the claim"
    VOLUME_FREE = "no claim holds the volume"


class ClaimRef(View, frozen=True, kw_only=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeSpec(View, frozen=True, kw_only=True):
    claim_ref: ClaimRef | None = None


class Volume(View, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeSpec = VolumeSpec()


@dataclass(frozen=True, slots=True)
class Protected:
    """A claim or a volume, and whether somebody needs it."""

    resource: Resource
    metadata: ObjectMeta
    in_use: bool


def plan(seen: Protected) -> Plan:
    meta = seen.metadata
    is_claim = seen.resource == PERSISTENT_VOLUME_CLAIMS
    finalizer = CLAIM_FINALIZER if is_claim else VOLUME_FINALIZER
    if meta.deletion_timestamp is None or finalizer not in meta.finalizers or seen.in_use:
        return NOTHING
    rest = [name for name in meta.finalizers if name != finalizer]
    return do(
        Patch(
            seen.resource,
            meta.key,
            {"metadata": {"finalizers": rest or None}},
            Cause.CLAIM_FREE if is_claim else Cause.VOLUME_FREE,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
    )
