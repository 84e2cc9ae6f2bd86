"""Writes status: once a round, only what differs, and only onto the version that was seen.

A conflict means that the round looked at an old object. Nothing is forced: the object is read
anew, and the next round decides afresh.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from manta.api.meta import ObjectMeta
from manta.api.resources import Resource
from manta.kube.client import Client
from manta.kube.errors import Conflict, MantaError, NotFound
from manta.runtime.freshness import Freshness, Owner

Status = Mapping[str, Any] | msgspec.Struct


class StatusWriter:
    def __init__(self, client: Client, freshness: Freshness) -> None:
        self._client = client
        self._freshness = freshness

    async def write(
        self, owner: Owner, resource: Resource, seen: ObjectMeta, old: Status, new: Status
    ) -> bool:
        """True when the status was changed. Raises Conflict when `seen` is not the latest."""
        change = merge_difference(msgspec.to_builtins(old), msgspec.to_builtins(new))
        if not change:
            return False
        guard = {"uid": seen.uid, "resourceVersion": seen.resource_version}
        body = {"metadata": guard, "status": change}
        try:
            written = await self._client.patch(resource, seen.key, body, subresource="status")
        except NotFound:
            return False  # deleted meanwhile: nobody is left to be told
        except MantaError as error:
            if error.unknown or isinstance(error, Conflict):
                self._freshness.note_unknown(owner, resource, seen.key)
            raise
        meta = written.metadata
        self._freshness.note_write(owner, resource, seen.key, meta.resource_version, meta.labels)
        return True


def merge_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The smallest JSON merge patch that turns `old` into `new`; empty when they are equal."""
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if name in old and before == value:
            continue
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            patch[name] = merge_difference(before, value)
        else:
            patch[name] = value
    return patch
