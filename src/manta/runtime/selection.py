"""Which objects an informer wants, and how they are read so that one odd object hides no other.

Objects are decoded whole lists at a time, which is fast. Where an object does not fit its type
(it was stored before its CRD had a schema, say) each one is read by itself: the odd one is told
in the log, once, and what the cache knows of it stays as it is.
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
    """Which objects, and as what they are decoded."""

    resource: Resource
    into: type[T]
    labels: str = ""
    fields: str = ""


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    items: Sequence[T]
    resource_version: str
    unreadable: Mapping[Key, str] = field(default_factory=dict)
    """Those that are there and cannot be read, with the reason."""


async def list_readable(client: Client, chosen: Selection[T], scope: str) -> Listed[T]:
    """All that can be read. Costs a second request only where something cannot."""
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
    """The event with its object read; Malformed when that cannot be. A delete needs no more than
    the metadata, which the server itself writes."""
    if event.type == "BOOKMARK":
        return WatchEvent(event.type, Object(), event.resource_version, event.initial_end)
    into: type[T | Object] = Object if event.type == "DELETED" else chosen.into
    value: T | Object = codec.decode(event.object, into, chosen.resource.kind)
    return WatchEvent(event.type, value, event.resource_version)


def key_of(raw: msgspec.Raw, chosen: Selection[T]) -> Key:
    return codec.decode(raw, Object, chosen.resource.kind).metadata.key


class OddObjects:
    """Tells of each odd object once, and again only when something else is wrong with it."""

    def __init__(self, tell: Callable[[Key, str | None], None]) -> None:
        """`tell` learns of each change: why an object cannot be read; None: it can be again."""
        self._told: dict[Key, str] = {}
        self._tell = tell

    def __len__(self) -> int:
        return len(self._told)

    def listed(self, unreadable: Mapping[Key, str]) -> None:
        """These and no others."""
        for key in [key for key in self._told if key not in unreadable]:
            self.mended(key)
        for key, why in unreadable.items():
            self.found(key, why)

    def found(self, key: Key, why: str) -> None:
        if self._told.get(key) != why:
            self._told[key] = why
            log.error("left as it is, because it cannot be read: %s", why)
            self._tell(key, why)

    def mended(self, key: Key) -> None:
        if self._told.pop(key, None) is not None:
            self._tell(key, None)
