"""Fields of a document that its type does not have: mostly misspelt ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import inspect

Unknown = tuple[str, Any, list[str]]
"""The path, the value, and the names that exist there."""
_TYPE_META: Final = frozenset(("apiVersion", "kind"))


def unknown_fields(document: Mapping[str, Any], struct: type[msgspec.Struct]) -> Iterator[Unknown]:
    """Fields outside of `status` that no struct has."""
    plain = {name: value for name, value in document.items() if name not in (*_TYPE_META, "status")}
    yield from _unknown(plain, inspect.type_info(struct), "")


def _unknown(value: Any, type_: Any, at: str) -> Iterator[Unknown]:
    match type_:
        case inspect.Metadata():
            yield from _unknown(value, _struct_of(type_) or type_.type, at)
        case inspect.UnionType():
            for one in type_.types:
                yield from _unknown(value, one, at)
        case inspect.StructType() if isinstance(value, Mapping):
            yield from _of_struct(value, type_, at)
        case inspect.VarTupleType() if isinstance(value, list | tuple):
            for index, inner in enumerate(value):
                yield from _unknown(inner, type_.item_type, f"{at}[{index}]")
        case inspect.DictType() if isinstance(value, Mapping):
            for name, inner in value.items():
                yield from _unknown(inner, type_.value_type, f"{at}.{name}")
        case _:
            return


def _of_struct(value: Mapping[str, Any], type_: inspect.StructType, at: str) -> Iterator[Unknown]:
    known = {field.encode_name: field.type for field in type_.fields}
    for name, inner in value.items():
        path = f"{at}.{name}" if at else str(name)
        if name in known:
            yield from _unknown(inner, known[name], path)
        else:
            yield path, inner, sorted(known)


def _struct_of(type_: inspect.Metadata) -> Any:
    """The type of a raw value that is one of our structs (`info(struct=...)`)."""
    struct = (type_.extra or {}).get("struct")
    return None if struct is None else inspect.type_info(struct)
