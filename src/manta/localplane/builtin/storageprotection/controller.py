"""The controllers that protect claims and volumes in use: what they watch, and their phases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from manta.api.meta import Key
from manta.api.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from manta.localplane.builtin.storageprotection.plan import (
    PERSISTENT_VOLUMES,
    Protected,
    Volume,
    plan,
)
from manta.localplane.builtin.views import Claim, Pod
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.controller import Watch, own_key


def _claims_of(pod: Pod) -> tuple[str, ...]:
    """Index Pods on nodes by their claims. A kubelet starts no Pod whose claim is terminating."""
    if not pod.spec.node_name:
        return ()
    namespace = pod.metadata.namespace
    return tuple(f"{namespace}/{name}" for name in pod.claim_names)


class _Protection(Reconciler[Protected, Any]):
    workers = 1

    def plan(self, snapshot: Protected) -> Step[Any]:
        return Step(plan(snapshot))

    def subject(self, snapshot: Protected) -> Subject:
        return Subject(snapshot.resource, snapshot.metadata)


class ClaimProtection(_Protection):
    name = "persistentvolumeclaim-protection-controller"

    def watches(self) -> Sequence[Watch[Any]]:
        informer = self.manager.informer
        self._claims = informer(PERSISTENT_VOLUME_CLAIMS, Claim)
        self._pods = informer(PODS, Pod, indexes={"claim": _claims_of})
        return Watch(self._claims, own_key), Watch(self._pods, self._released_claims)

    def _released_claims(self, old: Pod | None, new: Pod | None) -> Iterable[Key]:
        if old is None or new is not None:
            return ()
        return [Key(old.metadata.namespace, name) for name in old.claim_names]

    async def observe(self, key: Key) -> Protected | None:
        claim = self._claims.get(key)
        if claim is None:
            return None
        in_use = bool(self._pods.by("claim", str(key)))
        return Protected(PERSISTENT_VOLUME_CLAIMS, claim.metadata, in_use)


class VolumeProtection(_Protection):
    name = "persistentvolume-protection-controller"

    def watches(self) -> Sequence[Watch[Any]]:
        informer = self.manager.informer
        self._claims = informer(PERSISTENT_VOLUME_CLAIMS, Claim)
        self._volumes = informer(PERSISTENT_VOLUMES, Volume, indexes={"claim": _claim_of})
        return Watch(self._volumes, own_key), Watch(self._claims, self._released_volumes)

    def _released_volumes(self, old: Claim | None, new: Claim | None) -> Iterable[Key]:
        if old is None or new is not None:
            return ()
        return [one.metadata.key for one in self._volumes.by("claim", str(old.metadata.key))]

    async def observe(self, key: Key) -> Protected | None:
        volume = self._volumes.get(key)
        if volume is None:
            return None
        claim_ref = volume.spec.claim_ref
        claim = self._claims.get(Key(claim_ref.namespace, claim_ref.name)) if claim_ref else None
        in_use = claim is not None and claim_ref is not None and claim.metadata.uid == claim_ref.uid
        return Protected(PERSISTENT_VOLUMES, volume.metadata, in_use)


def _claim_of(volume: Volume) -> tuple[str, ...]:
    claim_ref = volume.spec.claim_ref
    return (f"{claim_ref.namespace}/{claim_ref.name}",) if claim_ref is not None else ()
