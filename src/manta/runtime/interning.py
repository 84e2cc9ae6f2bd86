"""Equal strings of cached objects are held once.

Thousands of Pods repeat the same label values, owners, images and phases. `sys.intern` is the
pool: it lets go of a string with its last user, so it cannot grow without bound.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import force_setattr

from manta.api.meta import ObjectMeta

T = TypeVar("T")

_LONGEST = 256
"""Longer texts (annotations with whole specs) are seldom equal: not worth the hashing."""

_UNIQUE: frozenset[tuple[type, str]] = frozenset(
    (ObjectMeta, name) for name in ("name", "uid", "resource_version")
)
"""Different for each object, so that sharing would only cost."""


class _Fields(NamedTuple):
    """The fields of one kind of Struct that can hold strings, by how to reach them."""

    texts: tuple[str, ...]
    maps: tuple[str, ...]
    structs: tuple[str, ...]
    sequences: tuple[str, ...]
    raws: tuple[str, ...]


def share(one: T) -> T:
    """The same object, whose strings are shared with all others that passed through here.

    Views are frozen for everyone else; here, before anyone has seen the object, equal parts are
    swapped for equal parts, which no one can tell. Raw JSON is cut loose from the message that
    it came in, which would otherwise live as long as the object.
    """
    if isinstance(one, msgspec.Struct):
        _share(one)
    return one


def _share(one: msgspec.Struct) -> None:
    fields = _fields(type(one))
    for name in fields.texts:
        text = getattr(one, name)
        if text and len(text) <= _LONGEST:
            force_setattr(one, name, intern(text))
    for name in fields.maps:
        pairs = getattr(one, name)
        if pairs:
            _share_map(pairs)
    for name in fields.structs:
        share(getattr(one, name))
    for name in fields.sequences:
        for inner in getattr(one, name) or ():
            share(inner)
    for name in fields.raws:
        _cut_loose(one, name)


def _cut_loose(one: msgspec.Struct, name: str) -> None:
    raw = getattr(one, name)
    if isinstance(raw, msgspec.Raw):
        force_setattr(one, name, raw.copy())


def _share_map(pairs: dict[Any, Any]) -> None:
    for key, value in pairs.items():
        if value.__class__ is str and len(value) <= _LONGEST:
            pairs[key] = intern(value)


@lru_cache(maxsize=512)
def _fields(kind: type[msgspec.Struct]) -> _Fields:
    sorts: dict[str, list[str]] = {sort: [] for sort in _Fields._fields}
    hints = get_type_hints(kind)
    for name in kind.__struct_fields__:
        sort = _sort_of(hints[name])
        if sort and (kind, name) not in _UNIQUE:
            sorts[sort].append(name)
    return _Fields(*(tuple(sorts[sort]) for sort in _Fields._fields))


def _sort_of(hint: Any) -> str | None:
    """Which of the lists of `_Fields` a field of this type belongs to."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _sort_of(get_args(hint)[0])
    if origin in {Union, UnionType}:
        found = {_sort_of(part) for part in get_args(hint) if part is not type(None)}
        return found.pop() if len(found) == 1 else None
    hint = getattr(hint, "__supertype__", hint)  # a NewType of str
    plain = origin or hint
    if not isinstance(plain, type):
        return None
    if issubclass(plain, str):
        return "texts" if plain is str else None
    if issubclass(plain, dict):
        return "maps"
    if issubclass(plain, msgspec.Struct):
        return "structs"
    if issubclass(plain, tuple | list):
        return "sequences"
    return "raws" if issubclass(plain, msgspec.Raw) else None
