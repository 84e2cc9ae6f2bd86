"""Server-side apply: merges the applied object, and detects conflicts with other managers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from manta.api.documents import limits
from manta.api.documents.reader import read_json
from manta.api.meta import SET_BY_SERVER
from manta.api.well_known import ANNOTATION_LAST_APPLIED
from manta.localplane.apiserver.patching.errors import malformed
from manta.localplane.apiserver.patching.field_sets import Tree, difference, paths, union
from manta.localplane.apiserver.patching.managed_fields import (
    Entry,
    Manager,
    conflicts_with,
    read_entries,
    relevant,
    track_update,
    without_unowned,
    write_entries,
)
from manta.localplane.apiserver.patching.ownership import (
    compare,
    merge,
    owned,
    refuse_duplicates,
    remove,
    with_named_fields,
)
from manta.localplane.apiserver.schema.causes import Cause, compact_json
from manta.localplane.apiserver.schema.node import Node

Json: TypeAlias = dict[str, Any]

KUBECTL: Final = "kubectl"
FIRST_MANAGER: Final = "before-first-apply"


@dataclass(frozen=True, slots=True)
class Conflict:
    manager: str
    """Return the name for messages, with quotes."""
    path: str

    @property
    def cause(self) -> Cause:
        return Cause("FieldManagerConflict", f"conflict with {self.manager}", self.path)


@dataclass(frozen=True, slots=True)
class Applied:
    object: Json
    """Return the new object with its managedFields; the live one itself if nothing changed.

    Raises PatchError, also for conflicts.
    """
    conflicts: tuple[Conflict, ...] = ()


def server_side_apply(  # noqa: PLR0913 - the parts of one request
    live: Json | None,
    applied: Json,
    *,
    manager: Manager,
    force: bool,
    node: Node | None,
    now: str,
    empty: Json | None = None,
    reset: frozenset[str] = frozenset(),
) -> Applied:
    """What an apply patch makes of an object; conflicts, and no change, unless forced.

    `empty` is what a create is compared with (see `managed_fields.track_update`). The result has
    no defaults yet: defaulted fields have no manager.
    """
    if (applied.get("metadata") or {}).get("managedFields"):
        raise malformed("metadata.managedFields must be nil")
    before = live if live is not None else (empty or {})
    config = _without_system_fields(applied)
    refuse_duplicates(node, config, _named(applied))
    entries = _entries(live, node, now)
    mine = next((one for one in entries if one.manager.identity == manager.identity), None)
    others = [one for one in entries if one is not mine]
    claimed = without_unowned(owned(node, config), reset)
    merged = merge(node, before, config)
    merged = _without_abandoned(node, merged, mine, (claimed, others))
    changes = relevant(compare(node, before, merged), reset)
    taken = union(changes.added, changes.modified)
    found = list(conflicts_with(others, taken))
    if found and manager.name == KUBECTL and not force:
        force = _were_applied_before(node, before, found)
    if found and not force:
        named = [Conflict(str(entry), path) for entry, tree in found for path in paths(tree)]
        return Applied(live or {}, tuple(sorted(named, key=lambda one: one.manager)))
    lost = union(taken, changes.removed)
    kept = [Entry(one.manager, difference(one.fields, lost), one.time) for one in others]
    time = now if changes else mine.time if mine is not None else ""
    if manager.name == KUBECTL:
        merged = _with_last_applied(merged, applied)
    return Applied(_finish(live, merged, [*kept, Entry(manager, claimed, time)]))


def _named(applied: Json) -> str:
    """Return an object as Go prints it: `namespace/name; group/version, Kind=kind`."""
    metadata = applied.get("metadata") or {}
    group, _, version = str(applied.get("apiVersion") or "").rpartition("/")
    kind = f"{group}/{version}, Kind={applied.get('kind') or ''}"
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {kind}"


# ── migration from client-side apply ─────────────────────────────────────────────────────
def _were_applied_before(
    node: Node | None, live: Json, found: Sequence[tuple[Entry, Tree]]
) -> bool:
    """Return whether all conflicting fields were last applied by kubectl client-side apply."""
    text = _annotations(live).get(ANNOTATION_LAST_APPLIED)
    try:
        last = read_json(text or b"{}", limits.REQUEST)
    except limits.DocumentError:
        return False
    if not isinstance(last, dict):
        return False
    changes = compare(node, last, live)
    unchanged = owned(node, last)
    for tree in changes:
        unchanged = difference(unchanged, tree)
    return not any(difference(tree, unchanged) for _, tree in found)


def _with_last_applied(merged: Json, applied: Json) -> Json:
    """Update the last-applied annotation if there is one, so that client-side apply still works."""
    annotations = _annotations(merged)
    if ANNOTATION_LAST_APPLIED not in annotations:
        return merged
    text = compact_json(_without_last_applied(applied)) + "\n"
    if annotations[ANNOTATION_LAST_APPLIED] == text:
        return merged
    metadata = {**merged["metadata"], "annotations": {**annotations, ANNOTATION_LAST_APPLIED: text}}
    return {**merged, "metadata": metadata}


def _without_last_applied(applied: Json) -> Json:
    """Return the applied object without the annotation itself."""
    annotations = _annotations(applied)
    if ANNOTATION_LAST_APPLIED not in annotations:
        return applied
    kept = {name: value for name, value in annotations.items() if name != ANNOTATION_LAST_APPLIED}
    return {**applied, "metadata": {**applied["metadata"], "annotations": kept}}


def _annotations(obj: Json) -> Json:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _entries(live: Json | None, node: Node | None, now: str) -> list[Entry]:
    """Fields of an object without managedFields belong to `before-first-apply`."""
    entries = read_entries(live)
    if entries or live is None:
        return entries
    first = Manager(FIRST_MANAGER, "Update", live.get("apiVersion", ""))
    tracked = track_update({}, live, manager=first, now=now, node=node)
    return read_entries({"metadata": {"managedFields": tracked}})


def _without_system_fields(applied: Json) -> Json:
    metadata = applied.get("metadata")
    if not metadata or not metadata.keys() & SET_BY_SERVER:
        return applied
    rest = {name: value for name, value in metadata.items() if name not in SET_BY_SERVER}
    return {**applied, "metadata": rest}


def _without_abandoned(
    node: Node | None, merged: Any, mine: Entry | None, rest: tuple[Tree, Sequence[Entry]]
) -> Any:
    """Remove fields that this manager owned and no longer applies, unless others own them."""
    if mine is None:
        return merged
    kept, others = rest
    for entry in others:
        kept = union(kept, entry.fields)
    last = with_named_fields(node, mine.fields)
    abandoned = difference(last, with_named_fields(node, kept))
    return remove(node, merged, without_unowned(abandoned, frozenset())) if abandoned else merged


def _finish(live: Json | None, merged: Json, entries: list[Entry]) -> Json:
    written = write_entries(entries)
    metadata = merged.get("metadata") or {}
    if live is not None and merged is live and metadata.get("managedFields", []) == written:
        return live
    rest = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**merged, "metadata": {**rest, "managedFields": written}}


def conflict_message(conflicts: Sequence[Conflict]) -> str:
    """Return the message of the 409, as kube-apiserver writes it."""
    if len(conflicts) == 1:
        only = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {only.manager}: {only.path}"
    lines: list[str] = []
    for manager in sorted({conflict.manager for conflict in conflicts}):
        lines.append(f"conflicts with {manager}:")
        lines.extend(f"- {one.path}" for one in conflicts if one.manager == manager)
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
