"""Writes each value of the snapshots once: a reconcile refers to what an earlier one of its segment saw.

Snapshots share most of their objects with the one before. An unchanged object costs a comparison of
identities, a changed one the encoding of its changed part (metadata, spec or status). Pure: the lines are
collected, and the caller writes them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from manta.api.core import PodSpec, PodStatus, ServiceSpec, ServiceStatus
from manta.api.meta import ObjectMeta
from manta.api.ray.cluster import RayClusterStatus
from manta.recording.hashes import content_hashes, translated
from manta.recording.redaction import Redactor

CACHED_BYTES: Final = 6 * 1024 * 1024
"""The size of the encoded values that are kept for the next segments."""
PARTS: Final = ("metadata", "spec", "status")
_OVERHEAD: Final = 200
_MAX_HASHES: Final = 1000
_MAX_TEXTS: Final = 1000
_SECRETS: Final = "has secrets"

Slots = dict[Hashable, Any]
"""Entries by their place; and under `_SECRETS`, whether one of them has secrets."""


@dataclass(slots=True)
class _Entry:
    value: Any
    body: bytes
    """The end of its line, after the id."""
    id: int
    segment: int


class Values:
    def __init__(self, redactor: Redactor, cached_bytes: int = CACHED_BYTES) -> None:
        self._redactor = redactor
        self._limit = cached_bytes
        self._cached = 0
        self._subjects: OrderedDict[Hashable, Slots] = OrderedDict()
        self._slots: Slots = {}
        self._hashes_of: dict[Hashable, dict[bytes, bytes]] = {}
        self._hashes: dict[bytes, bytes] = {}
        """The hashes of the current object, each with what is recorded in its place."""
        self._clean_texts: set[bytes] = set()
        self.has_secrets = False
        """Whether the snapshot of the current object has any."""
        self._segment = 0
        self._next_id = 0
        self.lines: list[bytes] = []
        """What the next line of a reconcile refers to, and is not written yet."""

    @property
    def cached_bytes(self) -> int:
        return self._cached

    def new_segment(self) -> None:
        """Write every value again from now on, so that a segment can be read alone."""
        self._segment += 1
        self._next_id = 0
        self.lines.clear()

    def begin(self, subject: Hashable) -> None:
        """The next values belong to this object; those of the longest unused one may be forgotten."""
        slots = self._subjects.get(subject)
        if slots is None:
            slots = self._subjects[subject] = {}
        else:
            self._subjects.move_to_end(subject)
        self._slots = slots
        self.has_secrets = _SECRETS in slots
        self._hashes = self._hashes_of.setdefault(subject, {})
        while self._cached > self._limit and len(self._subjects) > 1:
            forgotten, dropped = self._subjects.popitem(last=False)
            self._hashes_of.pop(forgotten, None)
            self._cached -= _size(dropped)

    def learn_hashes(self, slot: Hashable, name: str, value: Any) -> None:
        """Before anything that may contain a hash of this value is written."""
        known: _Entry | None = self._slots.get(slot)
        if known is not None and (known.value is value or known.value == value):
            return
        body, changed = self._redactor.encode(value)
        if changed:
            self.has_secrets = True
            kind = type(value) if isinstance(value, msgspec.Struct) else dict
            clean = msgspec.json.decode(body, type=kind)
            pairs = zip(content_hashes(name, value), content_hashes(name, clean), strict=True)
            self._add_hashes({one.encode(): other.encode() for one, other in pairs})
            self._slots[_SECRETS] = True
        body = b'"value":' + translated(body, self._hashes)
        self._keep(slot, _Entry(value, body, -1, -1))

    def _add_hashes(self, found: dict[bytes, bytes]) -> None:
        if found.items() <= self._hashes.items():
            return
        if len(self._hashes) > _MAX_HASHES:
            self._hashes.clear()
        self._hashes |= found
        self._cached -= _size(self._slots)
        self._slots.clear()  # what is kept may contain the real hash

    # ── values ───────────────────────────────────────────────────────────────────────────

    def value(self, slot: Hashable, value: Any, *, observed: bool = True) -> int:
        """The id of the line with this value. `observed`: it is part of the snapshot."""
        known: _Entry | None = self._slots.get(slot)
        if known is not None and (known.value is value or known.value == value):
            if known.segment == self._segment:
                return known.id
            known.id, known.segment = self._write(b"value", known.body), self._segment
            return known.id
        body = b'"value":' + (self._encoded(value) if observed else self.encode_planned(value))
        written = self._write(b"value", body)
        self._keep(slot, _Entry(value, body, written, self._segment))
        return written

    def object(self, view: Any) -> int:
        """The id of the line with a Kubernetes object: its parts have lines of their own."""
        slot = (type(view), view.metadata.uid)
        known: _Entry | None = self._slots.get(slot)
        if known is not None and known.value is view and known.segment == self._segment:
            return known.id
        names = view.__struct_fields__
        if "status" not in names:
            return self.value(slot, view)
        found = b",".join(
            [
                b'"%b":%d' % (part.encode(), self.value((slot, part), getattr(view, part)))
                for part in PARTS
                if part in names
            ]
        )
        written = self._write(b"object", b'"parts":{%b}' % found)
        self._keep(slot, _Entry(view, b"", written, self._segment))
        return written

    def encode(self, value: Any) -> bytes:
        """JSON without secrets, and without hashes of secrets."""
        clean, changed = self._redactor.encode(value)
        if changed:
            self.has_secrets = self._slots[_SECRETS] = True
        return translated(clean, self._hashes)

    def encode_planned(self, value: Any) -> bytes:
        """As `encode`, for what follows from the snapshot: without secrets there, it has none."""
        return self.encode(value) if self.has_secrets else msgspec.json.encode(value)

    def _encoded(self, value: Any) -> bytes:
        """As `encode`. Of most types only some fields can hold a secret: no others are searched."""
        match value:
            case PodSpec() | ServiceSpec() | ServiceStatus():
                return msgspec.json.encode(value)  # names, numbers and images
            case ObjectMeta():
                texts: Any = (value.labels, value.annotations, value.finalizers)
            case RayClusterStatus():
                texts = (value.reason, [one.message for one in value.conditions])
            case PodStatus():
                raw = msgspec.json.encode(value)
                return raw if b'"message"' not in raw else self.encode(value)
            case _:
                return self.encode(value)
        if self._is_clean(msgspec.json.encode(texts)):
            return translated(msgspec.json.encode(value), self._hashes)
        return self.encode(value)

    def _is_clean(self, texts: bytes) -> bool:
        if texts in self._clean_texts:
            return True
        if self._redactor.clean(texts)[1]:
            return False
        if len(self._clean_texts) >= _MAX_TEXTS:
            self._clean_texts.clear()
        self._clean_texts.add(texts)
        return True

    def _write(self, kind: bytes, body: bytes) -> int:
        number = self._next_id
        self._next_id += 1
        self.lines.append(b'{"line":"%b","id":%d,%b}\n' % (kind, number, body))
        return number

    def _keep(self, slot: Hashable, entry: _Entry) -> None:
        old = self._slots.get(slot)
        if old is None:
            self._cached += _OVERHEAD
        else:
            self._cached -= len(old.body)
        self._cached += len(entry.body)
        self._slots[slot] = entry


def _size(slots: Slots) -> int:
    return sum(len(one.body) + _OVERHEAD for one in slots.values() if one is not True)
