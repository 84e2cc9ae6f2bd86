"""Saves memory: equal strings and unchanged parts of cached objects are stored once.

Thousands of Pods repeat the same labels, owners, images and phases. `sys.intern` releases a string with its
last user, so the pool cannot grow without bound. Parts of an object that did not change are taken from its
cached version.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from types import UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec.structs import force_setattr

from manta.api.meta import ObjectMeta

T = TypeVar("T")

_LONGEST = 256
"""Longer texts (annotations with whole specs) are rarely equal: not worth the hashing."""

_UNIQUE: frozenset[tuple[type, str]] = frozenset(
    (ObjectMeta, name) for name in ("name", "uid", "resource_version")
)
"""Different for each object: sharing them would only cost time."""


class Share(Protocol):
    """Gives the object to keep for one that was read: the same, or an equal one."""

    def __call__(self, one: T, before: object = None) -> T: ...


class _Fields(NamedTuple):
    """The fields of one kind of Struct that can hold strings."""

    texts: tuple[str, ...]
    parts: tuple[str, ...]
    """Maps, Structs, sequences and raw JSON."""


def share(one: T, before: object = None) -> T:
    """The same object, its strings shared with all others, and its equal parts with `before`.

    Frozen views are modified here, before anyone else has them: equal parts are replaced by equal parts. (1
    equals True in untyped JSON, but no schema allows both.) Raw JSON is copied out of the message that it came
    in, which would otherwise stay in memory.
    """
    if isinstance(one, msgspec.Struct):
        _share(one, before if type(before) is type(one) else None)
    return one


def _share(one: msgspec.Struct, before: Any) -> None:
    fields = _fields(type(one))
    for name in fields.texts:
        text = getattr(one, name)
        if text and len(text) <= _LONGEST:
            force_setattr(one, name, intern(text))
    for name in fields.parts:
        part = getattr(one, name)
        if not part:
            continue
        held = getattr(before, name, None)
        if part == held:
            force_setattr(one, name, held)
        elif isinstance(part, msgspec.Raw):
            force_setattr(one, name, part.copy())
        else:
            _share_part(part, held)


def _share_part(part: Any, held: Any) -> None:
    if isinstance(part, dict):
        _share_map(part)
    elif isinstance(part, msgspec.Struct):
        share(part, held)
    else:
        for number, inner in enumerate(part):
            share(inner, held[number] if held and number < len(held) else None)


def _share_map(pairs: dict[Any, Any]) -> None:
    for key, value in pairs.items():
        if value.__class__ is str and len(value) <= _LONGEST:
            pairs[key] = intern(value)


@lru_cache(maxsize=512)
def _fields(kind: type[msgspec.Struct]) -> _Fields:
    hints = get_type_hints(kind)
    names = [name for name in kind.__struct_fields__ if (kind, name) not in _UNIQUE]
    texts = tuple(name for name in names if _sort_of(hints[name]) == "text")
    return _Fields(texts, tuple(name for name in names if _sort_of(hints[name]) == "part"))


def _sort_of(hint: Any) -> str | None:
    """`text` or `part` if a field of this type can be shared; else None."""
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
        return "text" if plain is str else None
    return "part" if issubclass(plain, dict | msgspec.Struct | tuple | list | msgspec.Raw) else None
