"""What an edited text writes to the object that was opened in the editor. Pure.

As `kubectl edit`, unlike an apply: fields that are gone from the text are removed, whoever wrote them, and there are
no conflicts with other field managers. Instead nobody else may have changed the spec since the text was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from manta.api.meta import Key
from manta.api.usage import UsageError
from manta.api.well_known import ANNOTATION_LAST_APPLIED
from manta.client.upgrades import Operation
from manta.console.differences import as_written

Document = Mapping[str, Any]
_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")


@dataclass(frozen=True, slots=True)
class Opened:
    """The object whose text a person edits, as it was then."""

    kind: str
    key: Key
    uid: str
    generation: int

    def is_of(self, document: Document) -> bool:
        """Whether this text is still of the object: with another name it is a new one."""
        meta = document["metadata"]
        key = Key(meta.get("namespace", "default"), meta["name"])
        return (document["kind"], key) == (self.kind, self.key)


def edit_operations(opened: Opened, live: Document, wanted: Document) -> tuple[Operation, ...]:
    """A JSON patch that makes the object what the text says, and fails if it is not the one that was opened.

    Raises UsageError if it is another object now, or has another spec.
    """
    meta = live["metadata"]
    if meta.get("uid") != opened.uid:
        raise UsageError("it was re-created since you opened it: open it again")
    if meta.get("generation") != opened.generation:
        raise UsageError(
            "its spec was changed since you opened it: open it again, and make your change there"
        )
    return (
        {"op": "test", "path": "/metadata/uid", "value": opened.uid},
        {"op": "test", "path": "/metadata/generation", "value": opened.generation},
        *_written(live, as_written(live), as_written(wanted)),
    )


def _written(live: Document, before: Document, after: Document) -> list[Operation]:
    found: list[Operation] = []
    if after.get("spec") != before.get("spec"):
        found.append({"op": "add", "path": "/spec", "value": after.get("spec") or {}})
    old, new = ({**one.get("metadata", {})} for one in (before, after))
    for name in _METADATA:
        if (old.get(name) or None) == (new.get(name) or None):
            continue
        value = new.get(name) or {}
        notes = live["metadata"].get("annotations") or {}
        if name == "annotations" and ANNOTATION_LAST_APPLIED in notes:  # not shown, so not removed
            value = {**value, ANNOTATION_LAST_APPLIED: notes[ANNOTATION_LAST_APPLIED]}
        path = f"/metadata/{name}"
        there = bool(value)
        found.append(
            {"op": "add", "path": path, "value": value} if there else {"op": "remove", "path": path}
        )
    return found
