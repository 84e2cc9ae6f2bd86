"""When a claim or a volume that was deleted may really go. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from manta.api.meta import Object, ObjectMeta, View
from manta.api.resources import PERSISTENT_VOLUME_CLAIMS, Resource
from manta.api.well_known import FINALIZER_CLAIM_PROTECTION, FINALIZER_VOLUME_PROTECTION
from manta.reconcile.actions import Patch
from manta.reconcile.causes import ONLY_FAILURES, ActionCause
from manta.reconcile.plan import NOTHING, Plan, do

PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)


class Cause(ActionCause):
    CLAIM_FREE = ONLY_FAILURES, "no Pod uses the claim"
    VOLUME_FREE = ONLY_FAILURES, "no claim holds the volume"


class ClaimRef(View, frozen=True, kw_only=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeSpec(View, frozen=True, kw_only=True):
    claim_ref: ClaimRef | None = None


class Volume(Object, frozen=True, kw_only=True):
    spec: VolumeSpec = VolumeSpec()


@dataclass(frozen=True, slots=True)
class Protected:
    """A claim or a volume, and whether it is in use."""

    resource: Resource
    metadata: ObjectMeta
    in_use: bool


def plan(snapshot: Protected) -> Plan:
    meta = snapshot.metadata
    is_claim = snapshot.resource == PERSISTENT_VOLUME_CLAIMS
    finalizer = FINALIZER_CLAIM_PROTECTION if is_claim else FINALIZER_VOLUME_PROTECTION
    if meta.deletion_timestamp is None or finalizer not in meta.finalizers or snapshot.in_use:
        return NOTHING
    rest = [name for name in meta.finalizers if name != finalizer]
    return do(
        Patch(
            snapshot.resource,
            meta.key,
            {"metadata": {"finalizers": rest or None}},
            Cause.CLAIM_FREE if is_claim else Cause.VOLUME_FREE,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
    )
