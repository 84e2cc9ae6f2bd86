"""Checks list types (set, map) for duplicates, and embedded resources for their type."""

from __future__ import annotations

from typing import Any

from manta.localplane.apiserver.schema import causes
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.schema.node import Node
from manta.localplane.apiserver.schema.paths import MapKey, Path, spell


def check_embedded(node: Node, value: Any, path: Path, out: list[Cause]) -> None:
    """Embedded resources need an apiVersion and a kind."""
    if not node.embedded_below:
        return
    if type(value) is dict:
        if node.embedded:
            _check_type_meta(value, path, out)
        for name, member in value.items():
            child, segment = _member(node, name)
            if child is not None:
                check_embedded(child, member, (path, segment), out)
    elif type(value) is list and node.items is not None:
        for index, item in enumerate(value):
            check_embedded(node.items, item, (path, index), out)


def check_unique(node: Node, value: Any, path: Path, out: list[Cause]) -> None:
    """Append a cause for each duplicate in a set, and each duplicate key in a list map."""
    if not node.list_types_below:
        return
    if type(value) is dict:
        for name, member in value.items():
            child, segment = _member(node, name)
            if child is not None and child.list_types_below:
                check_unique(child, member, (path, segment), out)
    elif type(value) is list:
        if not node.is_atomic_list:
            _check_list(node, value, path, out)
        if node.items is not None and node.items.list_types_below:
            for index, item in enumerate(value):
                check_unique(node.items, item, (path, index), out)


def _member(node: Node, name: str) -> tuple[Node | None, str]:
    child = node.properties.get(name)
    return (child, name) if child is not None else (node.additional, MapKey(name))


def _check_type_meta(value: dict[str, Any], path: Path, out: list[Cause]) -> None:
    for name in ("apiVersion", "kind"):
        field = spell((path, name))
        if name not in value:
            out.append(causes.required(field))
        elif not isinstance(value[name], str):
            out.append(causes.invalid(field, value[name], "must be a string"))
        elif not value[name]:
            out.append(causes.invalid(field, "", "must not be empty"))


def _check_list(node: Node, items: list[Any], path: Path, out: list[Cause]) -> None:
    if node.list_type == "map":
        for index, item in enumerate(items):
            if item is not None and type(item) is not dict:
                detail = "must be an object for an array of list-type map"
                out.append(causes.invalid(spell((path, index)), item, detail))
                return
        items = [_key(node, item) for item in items]
    seen: dict[Any, int] = {}
    for index, item in enumerate(items):
        identity = _identity(item)
        seen[identity] = times = seen.get(identity, 0) + 1
        if times == 2:
            out.append(causes.duplicate(spell((path, index)), item))


def _key(node: Node, item: dict[str, Any] | None) -> dict[str, Any]:
    return {name: item[name] for name in node.list_map_keys if name in item} if item else {}


def _identity(item: Any) -> Any:
    if type(item) is dict and len(item) == 1:
        (name, value), *_ = item.items()
        if type(value) is str:
            return (name, value)
    return causes.compact_json(item)
