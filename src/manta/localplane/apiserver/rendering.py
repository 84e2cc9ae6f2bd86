"""Stored records become what clients read: JSON of one version, items, lists and watch lines.

Records carry neither kind nor apiVersion, so most answers are made by joining bytes. Only an
object that was stored under another schema, or an Event asked for in the other group, is decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Any

import msgspec

from manta.localplane.apiserver.events import from_stored, to_stored
from manta.localplane.apiserver.served import Served
from manta.localplane.store.objects import KEPT_LINE_BYTES, Change, Record

_encode = msgspec.json.Encoder().encode
LONG_LIST = 500
LONG_BYTES = 256 * 1024
"""Lists that are longer, in one of both, are sent in parts."""
PART_BYTES = 64 * 1024

Body = bytes | AsyncGenerator[bytes, None]


def head(served: Served) -> bytes:
    return f'{{"kind":"{served.kind}","apiVersion":"{served.api_version}",'.encode()


def stored_form(served: Served, obj: dict[str, Any]) -> dict[str, Any]:
    """The object as it is stored: without kind and version, Events in the old form."""
    body = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
    return to_stored(body) if served.group == "events.k8s.io" else body


def epoch_of(served: Served) -> int:
    return served.custom.epoch if served.custom is not None else 0


def is_current(served: Served, record: Record) -> bool:
    """Whether the raw bytes are already what this version shows."""
    if served.custom is not None:
        return record.epoch == served.custom.epoch
    return served.group != "events.k8s.io"


def whole(served: Served, record: Record) -> dict[str, Any]:
    """The decoded object as a client of this version knows it."""
    body = record.decode()
    if served.group == "events.k8s.io":
        body = from_stored(body)
    obj = {"kind": served.kind, "apiVersion": served.api_version, **body}
    if served.custom is not None and record.epoch != served.custom.epoch:
        obj = served.custom.schema.default(served.custom.schema.prune(obj))
    return obj


def shown(served: Served, record: Record) -> bytes:
    """The JSON of one object."""
    if is_current(served, record):
        return head(served) + record.raw[1:]
    return _encode(whole(served, record))


def item(served: Served, record: Record) -> bytes:
    """The JSON inside a list: built-in kinds leave out what the list already says."""
    if served.custom is not None:
        return shown(served, record)
    if is_current(served, record):
        return record.raw
    body = whole(served, record)
    del body["kind"], body["apiVersion"]
    return _encode(body)


def listed(
    served: Served, records: Iterable[Record], revision: int, token: str = "", remaining: int = 0
) -> Body:
    start = _list_start(served, revision, token, remaining)
    return joined(start, (item(served, record) for record in records), b"]}\n")


def joined(start: bytes, items: Iterator[bytes], end: bytes, between: bytes = b",") -> Body:
    """A list, whole if it is short. A long one is made a part at a time, when the part before is
    sent: it neither fills the memory nor holds others up."""
    first: list[bytes] = []
    size = 0
    for one in items:
        first.append(one)
        size += len(one)
        if len(first) > LONG_LIST or size > LONG_BYTES:
            return _in_parts(start + between.join(first), items, end, between)
    return start + between.join(first) + end


async def _in_parts(
    start: bytes, items: Iterator[bytes], end: bytes, between: bytes
) -> AsyncGenerator[bytes, None]:
    """While a part waits for its reader, nothing else is kept here."""
    waiting = [start]
    del start
    while waiting:
        yield waiting.pop()
        part = _part(items, between)
        if part:
            waiting.append(part)
        await asyncio.sleep(0)
        del part
    yield end


def _part(items: Iterator[bytes], between: bytes) -> bytes:
    part: list[bytes] = [b""]
    size = 0
    for one in items:
        part.append(one)
        size += len(one)
        if size > PART_BYTES:
            break
    return between.join(part)


def _list_start(served: Served, revision: int, token: str, remaining: int) -> bytes:
    meta: dict[str, Any] = {"resourceVersion": str(revision)}
    if token:
        meta["continue"] = token
    if remaining:
        meta["remainingItemCount"] = remaining
    head = f'{{"kind":"{served.list_kind}","apiVersion":"{served.api_version}","metadata":'
    return head.encode() + _encode(meta) + b',"items":['


def event_line(served: Served, change: Change, as_type: str) -> bytes:
    """One line of a watch, written once for all watchers of the same version."""
    if change.size > KEPT_LINE_BYTES:
        return _event_line(served, change.record, as_type)
    slot = (as_type, served.api_version)
    if change.encoded is None:
        change.encoded = {}
    line = change.encoded.get(slot)
    if line is None:
        line = _event_line(served, change.record, as_type)
        change.encoded[slot] = line
    return line


def _event_line(served: Served, record: Record, as_type: str) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (as_type.encode(), shown(served, record))


def leaving(change: Change) -> Record:
    """What a watcher sees when an object leaves its selection: the old state, the new revision."""
    assert change.previous is not None
    body = change.previous.decode()
    body["metadata"]["resourceVersion"] = str(change.revision)
    previous = change.previous
    return Record(previous.key, _encode(body), change.revision, previous.epoch)
