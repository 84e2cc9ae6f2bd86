"""Stored records become what clients read: JSON of one version, items, lists and watch lines.

Records carry neither kind nor apiVersion, so most answers are made by joining bytes. Only an
object that was stored under another schema, or an Event asked for in the other group, is decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

import msgspec

from manta.localplane.apiserver.events import from_stored, to_stored
from manta.localplane.apiserver.served import Served
from manta.localplane.store.objects import Change, Record

_encode = msgspec.json.Encoder().encode
LONG_LIST = 500
"""Longer lists are sent in parts."""
_PART = 100


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
) -> bytes:
    start = _list_start(served, revision, token, remaining)
    return start + b",".join([item(served, record) for record in records]) + b"]}\n"


async def listed_in_parts(
    served: Served, records: Sequence[Record], revision: int, token: str = "", remaining: int = 0
) -> AsyncGenerator[bytes, None]:
    """The same list, a part at a time: a long one neither fills the memory nor holds others up."""
    yield _list_start(served, revision, token, remaining)
    for first in range(0, len(records), _PART):
        part = [item(served, record) for record in records[first : first + _PART]]
        yield (b"," if first else b"") + b",".join(part)
        await asyncio.sleep(0)
    yield b"]}\n"


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
    slot = (as_type, served.api_version)
    if change.encoded is None:
        change.encoded = {}
    line = change.encoded.get(slot)
    if line is None:
        record = change.record
        line = b'{"type":"%s","object":%s}\n' % (as_type.encode(), shown(served, record))
        change.encoded[slot] = line
    return line


def leaving(change: Change) -> Record:
    """What a watcher sees when an object leaves its selection: the old state, the new revision."""
    assert change.previous is not None
    body = change.previous.decode()
    body["metadata"]["resourceVersion"] = str(change.revision)
    previous = change.previous
    return Record(previous.key, _encode(body), change.revision, previous.epoch)
