"""metadata.managedFields: which manager set which field last.

An update owns the fields that it adds or changes; removed fields have no owner. A manager without
fields has no entry. The time of an entry changes when its manager gets a field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from manta.localplane.apiserver.patching.field_sets import (
    LEAF,
    Tree,
    difference,
    intersection,
    union,
)
from manta.localplane.apiserver.patching.ownership import Difference, compare
from manta.localplane.apiserver.schema.node import Node

Json: TypeAlias = dict[str, Any]

MAX_UPDATERS: Final = 10
ANCIENT: Final = "ancient-changes"

# Written by the server only: they have no owner.
_SYSTEM_FIELDS: Final[Tree] = {
    "f:apiVersion": LEAF,
    "f:kind": LEAF,
    "f:metadata": {
        ".": LEAF,
        "f:name": LEAF,
        "f:namespace": LEAF,
        "f:creationTimestamp": LEAF,
        "f:selfLink": LEAF,
        "f:uid": LEAF,
        "f:clusterName": LEAF,
        "f:generation": LEAF,
        "f:managedFields": LEAF,
        "f:resourceVersion": LEAF,
    },
}


@dataclass(frozen=True, slots=True)
class Manager:
    """The writer of fields: name, operation, version and subresource."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The key of the entry; for Apply it does not depend on the version."""
        version = "" if self.operation == "Apply" else self.api_version
        return (self.name, self.operation, version, self.subresource)


@dataclass(frozen=True, slots=True)
class Entry:
    manager: Manager
    fields: Tree
    time: str = ""

    def as_json(self) -> Json:
        entry: Json = {
            "manager": self.manager.name,
            "operation": self.manager.operation,
            "apiVersion": self.manager.api_version,
        }
        if self.time:
            entry["time"] = self.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": self.fields}
        if self.manager.subresource:
            entry["subresource"] = self.manager.subresource
        return entry

    def __str__(self) -> str:
        """The text for conflict messages."""
        text = f'"{self.manager.name}"'
        if self.manager.subresource:
            text += f' with subresource "{self.manager.subresource}"'
        if self.manager.operation == "Update":
            text += f" using {self.manager.api_version}"
        return text


def read_entries(obj: Json | None) -> list[Entry]:
    """Return the entries of an object; malformed ones are ignored, as in kube-apiserver."""
    found = ((obj or {}).get("metadata") or {}).get("managedFields") or []
    return [entry for one in found if (entry := _read(one)) is not None]


def _read(entry: Any) -> Entry | None:
    if type(entry) is not dict or type(entry.get("fieldsV1")) is not dict:
        return None
    manager = Manager(
        entry.get("manager", ""),
        entry.get("operation", ""),
        entry.get("apiVersion", ""),
        entry.get("subresource", ""),
    )
    return Entry(manager, entry["fieldsV1"], entry.get("time") or "")


def write_entries(entries: Iterable[Entry]) -> list[Json]:
    """Return the entries as stored: Apply first, then by time, without empty ones."""
    kept = capped([entry for entry in entries if entry.fields])
    kept.sort(
        key=lambda entry: (
            entry.manager.operation,
            entry.time,
            entry.manager.name,
            entry.manager.api_version,
            entry.manager.subresource,
        )
    )
    return [entry.as_json() for entry in kept]


def capped(entries: list[Entry]) -> list[Entry]:
    """Return at most MAX_UPDATERS entries of updates: the oldest are merged."""
    updaters = [entry for entry in entries if entry.manager.operation == "Update"]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return entries
    oldest = sorted(updaters, key=lambda entry: (entry.time, entry.manager.name))[: excess + 1]
    merged: Tree = {}
    for entry in oldest:
        merged = union(merged, entry.fields)
    last = oldest[-1]
    manager = Manager(ANCIENT, "Update", last.manager.api_version)
    return [entry for entry in entries if entry not in oldest] + [Entry(manager, merged, last.time)]


# ── updates ──────────────────────────────────────────────────────────────────────────────
def track_update(
    old: Json,
    new: Json,
    *,
    manager: Manager,
    now: str,
    node: Node | None,
    reset: frozenset[str] = frozenset(),
) -> list[Json]:
    """Return managedFields after an update from `old` to `new`.

    For a create, `old` is the empty object of the kind. `reset` are the fields that this endpoint
    does not write, such as `status`.
    """
    entries = read_entries(old)
    changes = relevant(compare(node, _plain(old), _plain(new)), reset)
    if not changes:
        return [entry.as_json() for entry in entries]
    taken = union(changes.added, changes.modified)
    lost = union(taken, changes.removed)
    entries = [replace(entry, fields=difference(entry.fields, lost)) for entry in entries]
    if taken:
        entries = _assign(entries, manager, taken, now)
    return write_entries(entries)


def _assign(entries: list[Entry], manager: Manager, taken: Tree, now: str) -> list[Entry]:
    result, found = [], False
    for entry in entries:
        if entry.manager.identity == manager.identity:
            found = True
            result.append(Entry(manager, union(entry.fields, taken), now))
        else:
            result.append(entry)
    return result if found else [*result, Entry(manager, taken, now)]


def _plain(obj: Json) -> Json:
    """Return the object without managedFields."""
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    rest = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**obj, "metadata": rest}


def relevant(changes: Difference, reset: frozenset[str]) -> Difference:
    """Return the changes without fields that have no owner."""
    return Difference(*(without_unowned(tree, reset) for tree in changes))


def without_unowned(tree: Tree, reset: frozenset[str]) -> Tree:
    kept = difference(tree, _SYSTEM_FIELDS)
    for name in reset:
        if f"f:{name}" in kept:
            kept = {element: below for element, below in kept.items() if element != f"f:{name}"}
    return kept


def conflicts_with(entries: Iterable[Entry], taken: Tree) -> Iterator[tuple[Entry, Tree]]:
    """Yield the entries that own some of the fields `taken`, with these fields."""
    for entry in entries:
        common = intersection(entry.fields, taken)
        if common:
            yield entry, common
