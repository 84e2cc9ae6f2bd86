"""What an edited text writes to the object that was opened in the editor. Pure.

As `kubectl edit`, unlike an apply: fields that are gone from the text are removed, whoever wrote them, and there are
no conflicts with other field managers. Instead nobody else may have changed the spec since the text was read. Of the
metadata only what differs from the text that was opened is written: the operator writes annotations meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from manta.api.meta import Key
from manta.api.usage import UsageError
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
    metadata: Document
    """Labels, annotations, finalizers and owners."""

    def is_of(self, document: Document) -> bool:
        """Whether this text is still of the object: with another name it is a new one."""
        meta = document["metadata"]
        key = Key(meta.get("namespace", "default"), meta["name"])
        return (document["kind"], key) == (self.kind, self.key)


def opened_of(kind: str, live: Document) -> Opened:
    """The object, as its text is shown now."""
    meta, shown = live["metadata"], as_written(live)["metadata"]
    kept = {name: shown[name] for name in _METADATA if shown.get(name)}
    key = Key(meta["namespace"], meta["name"])
    return Opened(kind, key, meta["uid"], meta.get("generation", 0), kept)


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
    text = as_written(wanted)
    spec: tuple[Operation, ...] = ()
    if text.get("spec") != live.get("spec"):
        spec = ({"op": "add", "path": "/spec", "value": text.get("spec") or {}},)
    return (
        {"op": "test", "path": "/metadata/uid", "value": opened.uid},
        {"op": "test", "path": "/metadata/generation", "value": opened.generation},
        *spec,
        *_metadata(opened.metadata, meta, text.get("metadata", {})),
    )


def _metadata(opened: Document, live: Document, wanted: Document) -> Iterator[Operation]:
    """Raises UsageError if somebody else has changed a list that the text changes too."""
    for name in _METADATA:
        old, new = opened.get(name) or {}, wanted.get(name) or {}
        if old == new:
            continue
        path = f"/metadata/{name}"
        if isinstance(old, Mapping) and isinstance(new, Mapping) and live.get(name):
            yield from _entries(path, old, new, live[name])
            continue
        if (live.get(name) or {}) != old:
            raise UsageError(f"its {name} were changed since you opened it: open it again")
        yield {"op": "add", "path": path, "value": new} if new else {"op": "remove", "path": path}


def _entries(path: str, old: Document, new: Document, live: Document) -> Iterator[Operation]:
    """What the text changes in labels or annotations; all others stay."""
    for key, value in new.items():
        if key not in old or old[key] != value:
            yield {"op": "add", "path": f"{path}/{_escaped(key)}", "value": value}
    for key in old:
        if key not in new and key in live:
            yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
