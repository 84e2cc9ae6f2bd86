"""What a change writes, as lines of a diff of YAML. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import unified_diff
from typing import Any, Final

from manta.api.documents.writer import to_yaml
from manta.api.well_known import ANNOTATION_LAST_APPLIED

MAX_LINES: Final = 500
MAX_COMPARED: Final = 20_000
"""Lines of YAML; a longer text is not compared, which could take minutes."""
_OF_THE_SERVER: Final = frozenset(
    ("managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink")
)


def as_written(document: Mapping[str, Any]) -> dict[str, Any]:
    """An object as a person would write it: without status, and without what the API server adds."""
    meta = {k: v for k, v in document.get("metadata", {}).items() if k not in _OF_THE_SERVER}
    notes = dict(meta.pop("annotations", None) or {})
    notes.pop(ANNOTATION_LAST_APPLIED, None)
    if notes:
        meta["annotations"] = notes
    first = {k: document[k] for k in ("apiVersion", "kind") if k in document}
    rest = {k: v for k, v in document.items() if k not in ("metadata", "status")}
    return {**first, **({"metadata": meta} if meta else {}), **rest}


def difference(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> tuple[str, ...]:
    """Lines that begin with `+`, `-` or a space; empty: nothing changes."""
    old = [] if before is None else to_yaml(as_written(before)).splitlines()
    new = to_yaml(as_written(after)).splitlines()
    if len(old) + len(new) > MAX_COMPARED:
        return (f"@@ {len(old)} and {len(new)} lines are too many to compare @@",)
    found = list(unified_diff(old, new, lineterm="", n=2))[2:]
    left = len(found) - MAX_LINES
    return (*found[:MAX_LINES], f"@@ and {left} more lines @@") if left > 0 else tuple(found)
