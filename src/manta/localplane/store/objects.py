"""The objects of one resource, their revisions and their history; pure.

One integer counts every write of the whole store. A `ResourceTable` keeps the objects of one resource
(all namespaces) sorted, as raw JSON, and its latest changes, so that a watch can resume and a list can
continue at the revision where it began. The JSON has no `kind` and no `apiVersion`: they depend on the
version that a client requests. A large resource table compresses objects that were not written lately.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from manta.localplane.store.compression import Compressor, is_compressed

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

# Limits of the history of one resource, whichever comes first.
KEEP_SECONDS = 600.0
KEEP_CHANGES = 20_000
KEEP_LINES = 256
"""Encoded watch lines are kept for so many changes; older ones are encoded again."""
KEPT_LINE_BYTES = 16 * 1024
"""Longer watch lines are encoded again for each watcher."""
KEEP_BYTES = 24 * 1024 * 1024
"""Bounds the history of one resource; `HISTORY_BYTES` bounds that of all resources."""
HISTORY_BYTES = 64 * 1024 * 1024
UNCOMPRESSED_BYTES = 4 * 1024 * 1024
"""The latest writes up to this size stay uncompressed."""
_COMPRESSED_AT_ONCE = 2
"""Per write: more than one, so that the backlog shrinks; few, so that no write waits long."""


class Compacted(Exception):  # noqa: N818 - etcd's word
    """The requested revision is older than the history."""

    def __init__(self, requested: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {requested} ({oldest})")


class _Labelled(msgspec.Struct, gc=False, frozen=True):
    labels: dict[str, str] | None = None


class _Meta(msgspec.Struct, gc=False):
    metadata: _Labelled = _Labelled()


_read_labels = msgspec.json.Decoder(_Meta).decode
_NO_LABELS: dict[str, str] = {}


class Record:
    """One object at one revision. Labels are decoded once, when first needed."""

    __slots__ = ("_compressor", "_labels", "_text", "epoch", "fields", "key", "revision")

    def __init__(self, key: str, raw: bytes, revision: int, epoch: int = 0) -> None:
        self.key = key
        self._text = raw
        self._compressor: Compressor | None = None
        self.revision = revision
        self.epoch = epoch
        """The schema version at the time of the write; with an older one, defaults may be missing."""
        self.fields: Mapping[str, str] | None = None
        """Values for field selectors, set by the first reader."""
        self._labels: dict[str, str] | None = None

    @property
    def raw(self) -> bytes:
        """The JSON. Other threads may read it while it is being compressed."""
        text = self._text
        if self._compressor is None or not is_compressed(text):
            return text
        return self._compressor.decompress(text)

    def compress(self, compressor: Compressor) -> None:
        if self._compressor is None:
            compressed = compressor.compress(self._text)
            self._compressor = compressor
            self._text = compressed

    @property
    def labels(self) -> Mapping[str, str]:
        if self._labels is None:
            self._labels = _read_labels(self.raw).metadata.labels or _NO_LABELS
        return self._labels

    @property
    def namespace(self) -> str:
        namespace, slash, _ = self.key.partition("/")
        return namespace if slash else ""

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def decode(self) -> dict[str, Any]:
        decoded: dict[str, Any] = msgspec.json.decode(self.raw)
        return decoded


@dataclass(slots=True)
class Change:
    """One write. `previous` lets a watch with a selector see objects enter and leave."""

    revision: int
    type: ChangeType
    record: Record
    previous: Record | None
    at: float
    size: int
    """The size of the JSON before compression."""
    encoded: dict[tuple[str, str], bytes] | None = None
    """Encoded watch lines by (event type, version), shared by all watchers."""


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


class ResourceTable:
    """The objects of one resource and the latest changes to them."""

    def __init__(self, name: str, *, start_revision: int = 0) -> None:
        self.name = name
        self.records: dict[str, Record] = {}
        self.revision = start_revision
        """The revision of the latest change here."""
        self.compacted = start_revision
        """Changes up to this revision are no longer in the history."""
        self._order: list[str] = []
        self._changes: deque[Change] = deque()
        self._bytes = 0
        self._compressor: Compressor | None = None
        self._recent: deque[tuple[Record, int]] = deque()
        self._recent_bytes = 0

    def __len__(self) -> int:
        return len(self.records)

    def load(self, record: Record) -> None:
        """Add a record of the journal, without a change in the history."""
        if record.key not in self.records:
            self._order.append(record.key)
        self.records[record.key] = record
        self.revision = max(self.revision, record.revision)
        self._add_recent(record, len(record.raw))

    def finish_loading(self) -> None:
        self._order.sort()

    def put(self, record: Record, at: float) -> Change:
        previous = self.records.get(record.key)
        if previous is None:
            insort(self._order, record.key)
        self.records[record.key] = record
        size = len(record.raw)
        self._add_recent(record, size)
        self.compress_stale(_COMPRESSED_AT_ONCE)
        kind: ChangeType = "MODIFIED" if previous else "ADDED"
        return self.record_change(Change(record.revision, kind, record, previous, at, size))

    def remove(self, last: Record, at: float) -> Change:
        previous = self.records.pop(last.key)
        del self._order[bisect_left(self._order, last.key)]
        return self.record_change(
            Change(last.revision, "DELETED", last, previous, at, len(last.raw))
        )

    def select(self, namespace: str = "") -> list[Record]:
        """Return the current records, in key order."""
        keys = self._order[self._range(namespace)] if namespace else self._order
        return [self.records[key] for key in keys]

    def select_at(self, revision: int, namespace: str = "") -> list[Record]:
        """Return the records at an earlier revision, in key order. Raises Compacted."""
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        then: dict[str, Record | None] = {}
        for change in self.changes_after(revision):
            then.setdefault(change.record.key, change.previous)
        if not then:
            return self.select(namespace)
        now = {record.key: record for record in self.select(namespace)}
        for key, record in then.items():
            if namespace and not key.startswith(f"{namespace}/"):
                continue
            if record is None:
                now.pop(key, None)
            else:
                now[key] = record
        return [now[key] for key in sorted(now)]

    def changes_after(self, revision: int) -> list[Change]:
        """Return the changes after a revision, oldest first."""
        found: list[Change] = []
        for change in reversed(self._changes):
            if change.revision <= revision:
                break
            found.append(change)
        found.reverse()
        return found

    def replay(self, revision: int) -> list[Change]:
        """Return the changes after a revision, oldest first. Raises Compacted."""
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        return self.changes_after(revision)

    def compact(self, up_to: int) -> None:
        """Drop the changes up to and including a revision."""
        while self._changes and self._changes[0].revision <= up_to:
            self._drop_oldest()
        self.compacted = max(self.compacted, up_to)

    def _range(self, namespace: str) -> slice:
        # "0" is the character after "/", so this spans exactly the keys below the namespace.
        return slice(
            bisect_left(self._order, f"{namespace}/"), bisect_left(self._order, f"{namespace}0")
        )

    def record_change(self, change: Change) -> Change:
        """Add a change to the history, and drop the oldest ones beyond the limits."""
        self.revision = change.revision
        self._changes.append(change)
        if len(self._changes) > KEEP_LINES:
            self._changes[-KEEP_LINES].encoded = None
        self._bytes += change.size
        while (
            len(self._changes) > KEEP_CHANGES
            or self._bytes > KEEP_BYTES
            or change.at - self._changes[0].at > KEEP_SECONDS
        ) and len(self._changes) > 1:
            self._drop_oldest()
        return change

    @property
    def history_bytes(self) -> int:
        return self._bytes

    def drop_oldest(self) -> None:
        """Drop one change, unless it is the only one."""
        if len(self._changes) > 1:
            self._drop_oldest()

    def revert(self, change: Change) -> None:
        """Undo the latest change, and remove it from the history."""
        key, previous = change.record.key, change.previous
        if previous is None:
            del self.records[key]
            del self._order[bisect_left(self._order, key)]
        else:
            if key not in self.records:
                insort(self._order, key)
            self.records[key] = previous
        if self._changes and self._changes[-1] is change:
            self._changes.pop()
            self._bytes -= change.size
        self.compacted = min(self.compacted, change.revision - 1)
        self.revision = self._changes[-1].revision if self._changes else self.compacted

    def _drop_oldest(self) -> None:
        oldest = self._changes.popleft()
        self._bytes -= oldest.size
        self.compacted = max(self.compacted, oldest.revision)

    # ── compression ──────────────────────────────────────────────────────────────────────
    def _add_recent(self, record: Record, size: int) -> None:
        self._recent.append((record, size))
        self._recent_bytes += size

    def compress_stale(self, most: int) -> bool:
        """Compress at most so many of the oldest writes. Return whether there may be more."""
        for _ in range(most):
            if self._recent_bytes <= UNCOMPRESSED_BYTES:
                return False
            record, size = self._recent.popleft()
            self._recent_bytes -= size
            if self._compressor is None:
                self._compressor = Compressor(record.raw)
            record.compress(self._compressor)
        return True

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records.values())
