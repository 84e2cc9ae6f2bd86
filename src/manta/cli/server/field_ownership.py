"""Field ownership shared with kubectl, so that both can apply the same object. Pure.

`manta apply` uses the field manager `kubectl`. Client-side apply leaves an `Update` entry that owns the
last-applied annotation. As in `kubectl apply --server-side`, that entry is first migrated to the
`Apply` entry, and so are entries of older versions of this command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from manta.api.names import MAX_ANNOTATIONS_BYTES
from manta.api.well_known import ANNOTATION_LAST_APPLIED

FIELD_MANAGER = "kubectl"
FORMER_MANAGER = "manta-cli"
COMMANDS = "manta"
"""Field manager of `manta scale` and `manta upgrade`."""

Entry = Mapping[str, Any]
Fields = Mapping[str, Any]


def with_last_applied(document: Mapping[str, Any]) -> dict[str, Any]:
    """The object with the annotation from which `kubectl apply` finds removed fields.

    An object that is too large for it has none: server-side apply does not need it.
    """
    meta = dict(document["metadata"])
    annotations = {
        k: v for k, v in (meta.get("annotations") or {}).items() if k != ANNOTATION_LAST_APPLIED
    }
    bare = {**document, "metadata": {**meta, "annotations": annotations}}
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    known = {**annotations, ANNOTATION_LAST_APPLIED: text}
    if (
        sum(len(name) + len(value.encode()) for name, value in known.items())
        > MAX_ANNOTATIONS_BYTES
    ):
        return bare if annotations else {**document}
    return {**bare, "metadata": {**meta, "annotations": known}}


def migration(live: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A JSON patch that moves fields of other apply entries to the Apply entry of `kubectl`.

    It drops the ownership of fields that our own commands patched: they stay unless the file sets
    them. Empty: nothing to do.
    """
    meta = live["metadata"]
    entries: Sequence[Entry] = meta.get("managedFields") or ()
    taken = [
        one for one in entries if _is_client_side(one) or _is_entry(one, FORMER_MANAGER, "Apply")
    ]
    released = [one for one in entries if _is_entry(one, COMMANDS, "Update")]
    if not taken and not released:
        return []
    ours = [one for one in entries if _is_entry(one, FIELD_MANAGER, "Apply")]
    kept = [one for one in entries if one not in (*taken, *released, *ours)]
    merged = [_merged([*ours, *taken])] if ours or taken else []
    return [
        {"op": "replace", "path": "/metadata/managedFields", "value": [*kept, *merged]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
    ]


def _merged(entries: Sequence[Entry]) -> Entry:
    """One Apply entry with the fields of all entries."""
    fields: Fields = {}
    for one in entries:
        fields = union(fields, one.get("fieldsV1") or {})
    return {**entries[0], "manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}


def _is_entry(entry: Entry, manager: str, operation: str) -> bool:
    named = (entry.get("manager"), entry.get("operation"), entry.get("subresource", ""))
    return named == (manager, operation, "")


def _is_client_side(entry: Entry) -> bool:
    """The manager that wrote the annotation used client-side apply, whatever its name."""
    if entry.get("operation") != "Update" or entry.get("subresource"):
        return False
    fields = entry.get("fieldsV1") or {}
    annotations = (fields.get("f:metadata") or {}).get("f:annotations") or {}
    return f"f:{ANNOTATION_LAST_APPLIED}" in annotations


def union(one: Fields, other: Fields) -> dict[str, Any]:
    """The union of two sets of fields, in the form of `fieldsV1`."""
    merged = dict(one)
    for name, inner in other.items():
        merged[name] = union(merged.get(name) or {}, inner)
    return merged
