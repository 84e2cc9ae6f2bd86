"""Stored records as JSON for clients: objects, lists and watch events.

Records hold neither kind nor apiVersion, so that most answers are made by joining bytes. An object is
decoded only if it was stored under another schema, or if it is an Event of the other group.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Any

import msgspec

from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.store.objects import KEPT_LINE_BYTES, Change, Record

_encode = msgspec.json.Encoder().encode
LONG_LIST = 500
LONG_BYTES = 256 * 1024
"""Lists with more items or more bytes are sent in parts."""
PART_BYTES = 64 * 1024

Body = bytes | AsyncGenerator[bytes, None]


def head(resource: ApiResource) -> bytes:
    return f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()


def stored_form(resource: ApiResource, obj: dict[str, Any]) -> dict[str, Any]:
    """The object as it is stored: without kind and apiVersion."""
    body = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
    return resource.strategy.to_storage(body)


def decode_object(resource: ApiResource, record: Record) -> dict[str, Any]:
    """The decoded object as clients of this version read it."""
    obj = {"kind": resource.kind, "apiVersion": resource.api_version, **record.decode()}
    return resource.strategy.from_storage(obj, record.epoch)


def encode_object(resource: ApiResource, record: Record) -> bytes:
    """The JSON of one object."""
    if resource.strategy.is_current(record.epoch):
        return head(resource) + record.raw[1:]
    return _encode(decode_object(resource, record))


def encode_item(resource: ApiResource, record: Record) -> bytes:
    """The JSON inside a list: built-in kinds omit kind and apiVersion there."""
    if resource.strategy.requires_type_meta:
        return encode_object(resource, record)
    if resource.strategy.is_current(record.epoch):
        return record.raw
    body = decode_object(resource, record)
    del body["kind"], body["apiVersion"]
    return _encode(body)


def encode_list(
    resource: ApiResource,
    records: Iterable[Record],
    revision: int,
    token: str = "",
    remaining: int = 0,
) -> Body:
    start = _list_start(resource, revision, token, remaining)
    return join_items(start, (encode_item(resource, record) for record in records), b"]}\n")


def join_items(start: bytes, items: Iterator[bytes], end: bytes, between: bytes = b",") -> Body:
    """A list, whole if it is short. A long one is rendered in parts, each when the part before is sent:
    it neither fills the memory nor blocks the event loop."""
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
    """Keep only one part in memory while the reader is slow."""
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


def _list_start(resource: ApiResource, revision: int, token: str, remaining: int) -> bytes:
    meta: dict[str, Any] = {"resourceVersion": str(revision)}
    if token:
        meta["continue"] = token
    if remaining:
        meta["remainingItemCount"] = remaining
    head = f'{{"kind":"{resource.list_kind}","apiVersion":"{resource.api_version}","metadata":'
    return head.encode() + _encode(meta) + b',"items":['


def watch_line(resource: ApiResource, change: Change, as_type: str) -> bytes:
    """One line of a watch, encoded once for all watchers of the same version."""
    if change.size > KEPT_LINE_BYTES:
        return _watch_line(resource, change.record, as_type)
    slot = (as_type, resource.api_version)
    if change.encoded is None:
        change.encoded = {}
    line = change.encoded.get(slot)
    if line is None:
        line = _watch_line(resource, change.record, as_type)
        change.encoded[slot] = line
    return line


def _watch_line(resource: ApiResource, record: Record, as_type: str) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (as_type.encode(), encode_object(resource, record))


def leaving_record(change: Change) -> Record:
    """The object that a watcher gets when it leaves the selection: the old state, the new revision."""
    assert change.previous is not None
    body = change.previous.decode()
    body["metadata"]["resourceVersion"] = str(change.revision)
    previous = change.previous
    return Record(previous.key, _encode(body), change.revision, previous.epoch)
