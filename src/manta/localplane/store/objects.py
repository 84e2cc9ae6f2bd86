"""Revisions, pure: what is stored, what changed, and what a shelf held at an earlier revision.

One integer counts every write of the whole store. A shelf is the place of one resource (all its
namespaces); it keeps its objects sorted as raw JSON and remembers its latest changes, so that a
watch can resume and a list can be continued at the revision where it began. Raw JSON carries no
`kind` and no `apiVersion`: these belong to the version in which a client asks. A shelf that has
grown large packs what has not been written lately.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from manta.localplane.store.packing import Packer, is_packed

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

# A shelf forgets by age, by number and by size, whichever comes first.
KEEP_SECONDS = 600.0
KEEP_CHANGES = 20_000
KEEP_LINES = 256
"""Of so many changes the finished watch lines are kept: whoever resumes further back pays."""
KEPT_LINE_BYTES = 16 * 1024
"""Longer watch lines are written again for each watcher."""
KEEP_BYTES = 24 * 1024 * 1024
"""Of the history of one shelf; `HISTORY_BYTES` bounds that of all shelves."""
HISTORY_BYTES = 64 * 1024 * 1024
FRESH_BYTES = 4 * 1024 * 1024
"""So much of a shelf, the latest writes, lies ready to be sent; the rest is packed."""
_PACKED_AT_ONCE = 2
"""Per write: a shelf shrinks faster than it grows, and no write waits for a big cleaning."""


class Compacted(Exception):  # noqa: N818 - an answer about history, not a fault
    """The asked revision lies before the remembered history."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.asked = asked
        self.oldest = oldest


class _Labelled(msgspec.Struct, gc=False, frozen=True):
    labels: dict[str, str] | None = None


class _Meta(msgspec.Struct, gc=False):
    metadata: _Labelled = _Labelled()


_read_labels = msgspec.json.Decoder(_Meta).decode
_NO_LABELS: dict[str, str] = {}


class Record:
    """One object at one revision. What selectors need is read from the JSON once, when asked."""

    __slots__ = ("_labels", "_packer", "_text", "epoch", "fields", "key", "revision")

    def __init__(self, key: str, raw: bytes, revision: int, epoch: int = 0) -> None:
        self.key = key
        self._text = raw
        self._packer: Packer | None = None
        self.revision = revision
        self.epoch = epoch
        """Which schema the writer obeyed; an older one means that defaults may be missing."""
        self.fields: Mapping[str, str] | None = None
        """Values for field selectors, kept by whoever reads them first."""
        self._labels: dict[str, str] | None = None

    @property
    def raw(self) -> bytes:
        """The JSON. Whoever reads from another thread meets the text before or after packing."""
        text = self._text
        if self._packer is None or not is_packed(text):
            return text
        return self._packer.unpack(text)

    def pack(self, packer: Packer) -> None:
        if self._packer is None:
            packed = packer.pack(self._text)
            self._packer = packer
            self._text = packed

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
    """Of the JSON, packed or not."""
    encoded: dict[tuple[str, str], bytes] | None = None
    """The finished watch lines, by (event type, version): written once, shared by all watchers."""


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


class Shelf:
    """The objects of one resource and the latest changes to them."""

    def __init__(self, name: str, *, born: int = 0) -> None:
        self.name = name
        self.records: dict[str, Record] = {}
        self.revision = born
        """The revision of the latest change here."""
        self.compacted = born
        """Revisions up to this one can no longer be replayed."""
        self._order: list[str] = []
        self._changes: deque[Change] = deque()
        self._bytes = 0
        self._packer: Packer | None = None
        self._fresh: deque[tuple[Record, int]] = deque()
        self._fresh_bytes = 0

    def __len__(self) -> int:
        return len(self.records)

    def load(self, record: Record) -> None:
        """Take a record from the journal: no change, no history."""
        if record.key not in self.records:
            self._order.append(record.key)
        self.records[record.key] = record
        self.revision = max(self.revision, record.revision)
        self._freshen(record, len(record.raw))

    def loaded(self) -> None:
        self._order.sort()

    def put(self, record: Record, at: float) -> Change:
        previous = self.records.get(record.key)
        if previous is None:
            insort(self._order, record.key)
        self.records[record.key] = record
        size = len(record.raw)
        self._freshen(record, size)
        self.pack_stale(_PACKED_AT_ONCE)
        kind: ChangeType = "MODIFIED" if previous else "ADDED"
        return self.remember(Change(record.revision, kind, record, previous, at, size))

    def remove(self, last: Record, at: float) -> Change:
        previous = self.records.pop(last.key)
        del self._order[bisect_left(self._order, last.key)]
        return self.remember(Change(last.revision, "DELETED", last, previous, at, len(last.raw)))

    def select(self, namespace: str = "") -> list[Record]:
        """Everything now, in key order."""
        keys = self._order[self._range(namespace)] if namespace else self._order
        return [self.records[key] for key in keys]

    def select_at(self, revision: int, namespace: str = "") -> list[Record]:
        """Everything as it was at an earlier revision, by undoing the changes since then."""
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
        """The changes since a revision, oldest first; the newest are looked at first."""
        found: list[Change] = []
        for change in reversed(self._changes):
            if change.revision <= revision:
                break
            found.append(change)
        found.reverse()
        return found

    def replay(self, revision: int) -> list[Change]:
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        return self.changes_after(revision)

    def forget(self, up_to: int) -> None:
        """Compact: drop the changes up to and including a revision."""
        while self._changes and self._changes[0].revision <= up_to:
            self._drop_oldest()
        self.compacted = max(self.compacted, up_to)

    def _range(self, namespace: str) -> slice:
        # "0" is the character after "/", so this spans exactly the keys below the namespace.
        return slice(
            bisect_left(self._order, f"{namespace}/"), bisect_left(self._order, f"{namespace}0")
        )

    def remember(self, change: Change) -> Change:
        """Keep a change for watchers, and forget the oldest ones beyond the limits."""
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
        """Forget one change, unless it is the only one."""
        if len(self._changes) > 1:
            self._drop_oldest()

    def revert(self, change: Change) -> None:
        """Take the latest change back, as if it had never been."""
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

    # ── packing ──────────────────────────────────────────────────────────────────────────
    def _freshen(self, record: Record, size: int) -> None:
        self._fresh.append((record, size))
        self._fresh_bytes += size

    def pack_stale(self, most: int) -> bool:
        """Pack at most so many of what was not written lately; whether there may be more."""
        for _ in range(most):
            if self._fresh_bytes <= FRESH_BYTES:
                return False
            record, size = self._fresh.popleft()
            self._fresh_bytes -= size
            if self._packer is None:
                self._packer = Packer(record.raw)
            record.pack(self._packer)
        return True

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records.values())
