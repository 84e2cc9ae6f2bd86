"""Binds each PersistentVolumeClaim to a directory of the plane.

The directory outlives Pods and agents; it is removed when the claim is deleted (reclaim policy Delete).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from manta.api.core import PersistentVolumeClaim
from manta.api.meta import Key
from manta.api.resources import PERSISTENT_VOLUME_CLAIMS, Resource
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, MantaError, NotFound
from manta.localplane.node.storage.volumes import Volumes
from manta.runtime.informer import Informer

log = logging.getLogger(__name__)

PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
_RETRY_SECONDS = 5.0


def volume_name(claim: PersistentVolumeClaim) -> str:
    return f"pvc-{claim.metadata.uid}"


def volume_manifest(claim: PersistentVolumeClaim, path: str) -> dict[str, Any]:
    """The PersistentVolume of a claim's directory. Pure."""
    meta = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name(claim)},
        "spec": {
            "capacity": capacity(claim),
            "accessModes": list(claim.spec.access_modes),
            "hostPath": {"path": path},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": claim.spec.storage_class_name or "",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
            },
        },
    }


def capacity(claim: PersistentVolumeClaim) -> dict[str, Any]:
    return {"storage": claim.spec.resources.requests.get("storage", "1Gi")}


class ClaimBinder:
    def __init__(self, client: Client, volumes: Volumes) -> None:
        self._client = client
        self._volumes = volumes
        self._claims = Informer(client, PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
        self._todo: asyncio.Queue[tuple[PersistentVolumeClaim, bool]] = asyncio.Queue()

    async def run(self) -> None:
        self._claims.add_handler(self._changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claims.run(), name="claims")
            while True:
                claim, deleted = await self._todo.get()
                await self._reconcile(claim, deleted=deleted)

    def _changed(
        self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> None:
        if new is not None and new.status.phase != "Bound":
            self._todo.put_nowait((new, False))
        elif new is None and old is not None:
            self._todo.put_nowait((old, True))

    async def _reconcile(self, claim: PersistentVolumeClaim, *, deleted: bool) -> None:
        try:
            await (self._release(claim) if deleted else self._bind(claim))
        except NotFound:
            return  # the claim was deleted
        except MantaError as error:
            log.warning("claim %s: %s", claim.metadata.key, error)
            loop = asyncio.get_running_loop()
            loop.call_later(_RETRY_SECONDS, self._todo.put_nowait, (claim, deleted))

    async def _bind(self, claim: PersistentVolumeClaim) -> None:
        key = claim.metadata.key
        path = self._volumes.claim_directory(key.namespace, key.name)
        try:
            await self._client.create(PERSISTENT_VOLUMES, "", volume_manifest(claim, str(path)))
        except AlreadyExists:
            log.debug("the volume of claim %s exists already", key)
        uid = {"uid": claim.metadata.uid}
        chosen = {"metadata": uid, "spec": {"volumeName": volume_name(claim)}}
        await self._client.patch(PERSISTENT_VOLUME_CLAIMS, key, chosen)
        status = {
            "phase": "Bound",
            "capacity": capacity(claim),
            "accessModes": list(claim.spec.access_modes),
        }
        await self._client.patch(
            PERSISTENT_VOLUME_CLAIMS, key, {"metadata": uid, "status": status}, subresource="status"
        )
        bound = {"status": {"phase": "Bound"}}
        volume = Key("", volume_name(claim))
        await self._client.patch(PERSISTENT_VOLUMES, volume, bound, subresource="status")

    async def _release(self, claim: PersistentVolumeClaim) -> None:
        key = claim.metadata.key
        if self._claims.get(key) is not None:
            return  # a new claim with the same name uses the directory
        await asyncio.to_thread(self._volumes.remove_claim, key.namespace, key.name)
        await self._client.delete(PERSISTENT_VOLUMES, Key("", volume_name(claim)))
