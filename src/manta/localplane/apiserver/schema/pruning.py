"""Removes fields that the schema does not know, and lists them for strict field validation.

`metadata` is described by the server, not by the schema.
"""

from __future__ import annotations

from typing import Any, Final

from manta.localplane.apiserver.schema.node import Node
from manta.localplane.apiserver.schema.paths import Path, spell

TYPE_META: Final = frozenset({"apiVersion", "kind", "metadata"})

OBJECT_META: Final = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


def prune_root(node: Node, obj: dict[str, Any], unknown: list[str] | None = None) -> dict[str, Any]:
    """Return the object without unknown fields; their paths are appended to `unknown`, sorted."""
    found: list[str] = []
    pruned = _prune_object(node, obj, None, found, resource=True)
    if unknown is not None:
        unknown.extend(sorted(found))
    return pruned


def prune_value(node: Node, value: Any) -> Any:
    """Return a value inside an object, without unknown fields."""
    return _prune(node, value, None, [])


def _prune(node: Node, value: Any, path: Path, unknown: list[str]) -> Any:
    if type(value) is dict:
        return _prune_object(node, value, path, unknown, resource=node.embedded)
    if type(value) is list and node.items is not None:
        return _prune_items(node.items, value, path, unknown)
    return value


def _prune_object(
    node: Node, value: dict[str, Any], path: Path, unknown: list[str], *, resource: bool
) -> dict[str, Any]:
    properties, additional = node.properties, node.additional
    keep_unknown = node.preserve or node.any_key or (not node.type_ and not properties)
    result = value
    for name, member in value.items():
        if resource and name in TYPE_META:
            kept = _prune_metadata(member, (path, name), unknown) if name == "metadata" else member
        elif (child := properties.get(name)) is not None:
            kept = _prune(child, member, (path, name), unknown)
        elif additional is not None:
            kept = _prune(additional, member, (path, name), unknown)
        elif keep_unknown:
            continue
        else:
            unknown.append(spell((path, name)))
            result = result if result is not value else dict(value)
            del result[name]
            continue
        if kept is not member:
            result = result if result is not value else dict(value)
            result[name] = kept
    return result


def _prune_items(items: Node, value: list[Any], path: Path, unknown: list[str]) -> list[Any]:
    result = value
    for index, item in enumerate(value):
        kept = _prune(items, item, (path, index), unknown)
        if kept is not item:
            result = result if result is not value else list(value)
            result[index] = kept
    return result


def _prune_metadata(metadata: Any, path: Path, unknown: list[str]) -> Any:
    if type(metadata) is not dict or metadata.keys() <= OBJECT_META:
        return metadata
    unknown.extend(spell((path, name)) for name in metadata if name not in OBJECT_META)
    return {name: value for name, value in metadata.items() if name in OBJECT_META}
