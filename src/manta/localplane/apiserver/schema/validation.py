"""Checks the type and the constraints of every value.

On updates validation ratchets, as in kube-apiserver: unchanged values may stay invalid. Parts that are
identical to the old object are skipped.
"""

from __future__ import annotations

from typing import Any, Final

from manta.localplane.apiserver.schema import causes
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.schema.node import Node
from manta.localplane.apiserver.schema.paths import Path, spell


class _Absent:
    """There is no old value."""


ABSENT: Final = _Absent()

TYPE_NAMES: Final = {
    dict: "object",
    list: "array",
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
_GO_FORMATS: Final = {int: "int64", float: "float64", bool: "", dict: ""}


def check_node(node: Node, value: Any, old: Any, path: Path, out: list[Cause]) -> None:
    """Append to `out` what is invalid in `value`, unless it is unchanged."""
    if value is old:
        return
    found = len(out)
    _check(node, value, old, path, out)
    if len(out) > found and old is not ABSENT and value == old:
        del out[found:]


def _check(node: Node, value: Any, old: Any, path: Path, out: list[Cause]) -> None:
    kind = type(value)
    if kind not in node.python_types and not _is_acceptable(node, value):
        _wrong_type(node, value, path, out)
        return
    if node.check is not None:
        node.check(value, path, out)
    if kind is dict:
        _check_object(node, value, old, path, out)
    elif kind is list and node.items is not None:
        _check_items(node, value, old, path, out)


def _is_acceptable(node: Node, value: Any) -> bool:
    if value is None:
        return node.nullable or not node.type_
    return node.type_ == "integer" and type(value) is float and value.is_integer()


def _wrong_type(node: Node, value: Any, path: Path, out: list[Cause]) -> None:
    field, wanted, name = spell(path), node.type_, TYPE_NAMES[type(value)]
    if node.format and node.type_ == "string" and type(value) in _GO_FORMATS:
        # kube-apiserver compares formats here, and uses Go's names for numbers.
        wanted, name = node.format, _GO_FORMATS[type(value)]
    detail = f'{field} in body must be of type {wanted}: "{name}"'
    out.append(causes.type_invalid(field, name, detail))
    # kube-apiserver checks the other constraints too; for null only a few.
    if node.check is not None:
        extra: list[Cause] = []
        node.check(value, path, extra)
        only_choices = value is None
        out.extend(
            cause for cause in extra if not only_choices or cause.reason == "FieldValueNotSupported"
        )


def _check_object(
    node: Node, value: dict[str, Any], old: Any, path: Path, out: list[Cause]
) -> None:
    properties, additional = node.properties, node.additional
    before = old if type(old) is dict and node.map_type != "atomic" else {}
    for name, member in value.items():
        child = properties.get(name, additional)
        if child is not None:
            check_node(child, member, before.get(name, ABSENT), (path, name), out)
    out.extend(causes.required(spell((path, name))) for name in node.required if name not in value)


def _check_items(node: Node, value: list[Any], old: Any, path: Path, out: list[Cause]) -> None:
    items = node.items
    assert items is not None
    before = correlate(node, value, old)
    for index, item in enumerate(value):
        check_node(items, item, before[index] if before else ABSENT, (path, index), out)


def correlate(node: Node, items: list[Any], old: Any) -> list[Any] | None:
    """Return the old element of each element; None if the list has no keys."""
    if node.list_type != "map" or type(old) is not list:
        return None
    keys = node.list_map_keys
    try:
        by_key = {tuple(item.get(key) for key in keys): item for item in old}
        return [by_key.get(tuple(item.get(key) for key in keys), ABSENT) for item in items]
    except (AttributeError, TypeError):  # elements that are not objects, or invalid keys
        return None
