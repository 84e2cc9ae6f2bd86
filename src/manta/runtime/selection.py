"""Which objects an informer selects, and how they are decoded when one of them is malformed.

A list is decoded as a whole, which is fast. If an object does not fit its type (say, it was stored before its
CRD had a schema), each is decoded by itself: the malformed one is logged once, and the cache keeps its last
valid state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from manta.api.meta import Key, Object
from manta.api.resources import Resource
from manta.kube import codec
from manta.kube.client import Client, Listing
from manta.kube.errors import Malformed
from manta.kube.watch_stream import WatchEvent
from manta.runtime.cache import Named

T = TypeVar("T", bound=Named)
R = TypeVar("R")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Selection(Generic[T]):
    """Which objects, and the type that they are decoded as."""

    resource: Resource
    into: type[T]
    labels: str = ""
    fields: str = ""


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    items: Sequence[T]
    resource_version: str
    unreadable: Mapping[Key, str] = field(default_factory=dict)
    """Objects that exist but cannot be decoded, with the reason."""


async def list_readable(client: Client, chosen: Selection[T], scope: str) -> Listed[T]:
    """All objects that can be decoded. Needs a second request only if one cannot."""
    try:
        listing = await _list(client, chosen, scope, chosen.into)
    except Malformed:
        raw = await _list(client, chosen, scope, msgspec.Raw)
        return _one_by_one(chosen, raw.items, raw.resource_version)
    return Listed(listing.items, listing.resource_version)


async def _list(client: Client, chosen: Selection[T], scope: str, into: type[R]) -> Listing[R]:
    return await client.list(
        chosen.resource, scope, into=into, labels=chosen.labels, fields=chosen.fields
    )


def _one_by_one(
    chosen: Selection[T], raws: Sequence[msgspec.Raw], resource_version: str
) -> Listed[T]:
    items: list[T] = []
    unreadable: dict[Key, str] = {}
    for raw in raws:
        try:
            items.append(codec.decode(raw, chosen.into, chosen.resource.kind))
        except Malformed as error:
            unreadable[key_of(raw, chosen)] = str(error)
    return Listed(items, resource_version, unreadable)


def read_event(chosen: Selection[T], event: WatchEvent[msgspec.Raw]) -> WatchEvent[T | Object]:
    """The event with its object decoded. Raises Malformed. Of a deleted object only the metadata is decoded,
    which the server writes itself."""
    if event.type == "BOOKMARK":
        return WatchEvent(event.type, Object(), event.resource_version, event.initial_end)
    into: type[T | Object] = Object if event.type == "DELETED" else chosen.into
    value: T | Object = codec.decode(event.object, into, chosen.resource.kind)
    return WatchEvent(event.type, value, event.resource_version)


def key_of(raw: msgspec.Raw, chosen: Selection[T]) -> Key:
    return codec.decode(raw, Object, chosen.resource.kind).metadata.key


class UnreadableObjects:
    """Logs each object that cannot be decoded once per reason."""

    def __init__(self, on_change: Callable[[Key, str | None], None]) -> None:
        """`on_change` is called with the reason; None: the object can be decoded again."""
        self._reasons: dict[Key, str] = {}
        self._on_change = on_change

    def __len__(self) -> int:
        return len(self._reasons)

    def replace(self, unreadable: Mapping[Key, str]) -> None:
        """These objects, and no others, cannot be decoded."""
        for key in [key for key in self._reasons if key not in unreadable]:
            self.remove(key)
        for key, why in unreadable.items():
            self.add(key, why)

    def add(self, key: Key, why: str) -> None:
        if self._reasons.get(key) != why:
            self._reasons[key] = why
            log.error("an object cannot be decoded, and is left as it is: %s", why)
            self._on_change(key, why)

    def remove(self, key: Key) -> None:
        if self._reasons.pop(key, None) is not None:
            self._on_change(key, None)
