"""The protection of claims and volumes tied to the API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from manta.api.meta import Key, ObjectMeta
from manta.api.resources import PERSISTENT_VOLUME_CLAIMS, PODS, Resource
from manta.localplane.builtin.shell import Builtin
from manta.localplane.builtin.storageprotection.plan import (
    PERSISTENT_VOLUMES,
    Protected,
    Volume,
    plan,
)
from manta.localplane.builtin.views import Claim, Pod
from manta.reconcile.plan import Plan
from manta.runtime.controller import Watch, own_key


def _claims_of(pod: Pod) -> tuple[str, ...]:
    """Only a Pod on a node holds its claims: no kubelet starts one whose claim is going."""
    if not pod.spec.node_name:
        return ()
    namespace = pod.metadata.namespace
    return tuple(f"{namespace}/{name}" for name in pod.claim_names)


class _Protection(Builtin[Protected]):
    workers = 1

    def plan(self, seen: Protected) -> Plan:
        return plan(seen)

    def subject(self, seen: Protected) -> tuple[Resource, ObjectMeta]:
        return seen.resource, seen.metadata


class ClaimProtection(_Protection):
    name = "persistentvolumeclaim-protection-controller"

    def watches(self) -> Sequence[Watch[Any]]:
        informer = self.manager.informer
        self._claims = informer(PERSISTENT_VOLUME_CLAIMS, Claim)
        self._pods = informer(PODS, Pod, indexes={"claim": _claims_of})
        return Watch(self._claims, own_key), Watch(self._pods, self._freed)

    def _freed(self, old: Pod | None, new: Pod | None) -> Iterable[Key]:
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
        return Watch(self._volumes, own_key), Watch(self._claims, self._freed)

    def _freed(self, old: Claim | None, new: Claim | None) -> Iterable[Key]:
        if old is None or new is not None:
            return ()
        return [one.metadata.key for one in self._volumes.by("claim", str(old.metadata.key))]

    async def observe(self, key: Key) -> Protected | None:
        volume = self._volumes.get(key)
        if volume is None:
            return None
        held = volume.spec.claim_ref
        claim = self._claims.get(Key(held.namespace, held.name)) if held else None
        in_use = claim is not None and held is not None and claim.metadata.uid == held.uid
        return Protected(PERSISTENT_VOLUMES, volume.metadata, in_use)


def _claim_of(volume: Volume) -> tuple[str, ...]:
    held = volume.spec.claim_ref
    return (f"{held.namespace}/{held.name}",) if held is not None else ()
