"""Field ownership shared with kubectl, so that both may apply the same object in turn. Pure.

`manta apply` applies as the manager `kubectl`. What kubectl applied on the client side is owned by an
`Update` entry that holds the last-applied annotation: it is turned into the `Apply` entry first,
as `kubectl apply --server-side` does it, and so is what older versions of this command applied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

FIELD_MANAGER = "kubectl"
FORMER_MANAGER = "manta-cli"
COMMANDS = "manta"
"""Manager of what `manta scale` and `manta upgrade` patch: their author is the one who applies now."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

ANNOTATION_LIMIT = 256 * 1024
"""Bytes that an API server takes in all annotations of an object together."""

Entry = Mapping[str, Any]
Fields = Mapping[str, Any]


def with_last_applied(document: Mapping[str, Any]) -> dict[str, Any]:
    """The object with itself in the annotation from which `kubectl apply` finds removed fields.

    An object that is too large for an annotation goes without: server-side apply does not need it.
    """
    meta = dict(document["metadata"])
    annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k != LAST_APPLIED}
    bare = {**document, "metadata": {**meta, "annotations": annotations}}
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    known = {**annotations, LAST_APPLIED: text}
    if sum(len(name) + len(value.encode()) for name, value in known.items()) > ANNOTATION_LIMIT:
        return bare if annotations else {**document}
    return {**bare, "metadata": {**meta, "annotations": known}}


def migration(live: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A JSON patch that gives `kubectl`'s Apply entry what was applied in other ways, and nobody what our
    own commands patched (it stays unless the file says otherwise). Empty: nothing to do."""
    meta = live["metadata"]
    entries: Sequence[Entry] = meta.get("managedFields") or ()
    taken = [one for one in entries if _is_client_side(one) or _bears(one, FORMER_MANAGER, "Apply")]
    released = [one for one in entries if _bears(one, COMMANDS, "Update")]
    if not taken and not released:
        return []
    ours = [one for one in entries if _bears(one, FIELD_MANAGER, "Apply")]
    kept = [one for one in entries if one not in (*taken, *released, *ours)]
    merged = [_merged([*ours, *taken])] if ours or taken else []
    return [
        {"op": "replace", "path": "/metadata/managedFields", "value": [*kept, *merged]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
    ]


def _merged(entries: Sequence[Entry]) -> Entry:
    """One Apply entry for the fields of all."""
    fields: Fields = {}
    for one in entries:
        fields = union(fields, one.get("fieldsV1") or {})
    return {**entries[0], "manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}


def _bears(entry: Entry, manager: str, operation: str) -> bool:
    named = (entry.get("manager"), entry.get("operation"), entry.get("subresource", ""))
    return named == (manager, operation, "")


def _is_client_side(entry: Entry) -> bool:
    """Whoever wrote the annotation applied on the client side, whatever it calls itself."""
    if entry.get("operation") != "Update" or entry.get("subresource"):
        return False
    fields = entry.get("fieldsV1") or {}
    annotations = (fields.get("f:metadata") or {}).get("f:annotations") or {}
    return f"f:{LAST_APPLIED}" in annotations


def union(one: Fields, other: Fields) -> dict[str, Any]:
    """Of two sets of fields, as `fieldsV1` writes them."""
    merged = dict(one)
    for name, inner in other.items():
        merged[name] = union(merged.get(name) or {}, inner)
    return merged
