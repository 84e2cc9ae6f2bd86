"""Equal strings of cached objects are held once.

Thousands of Pods repeat the same label values, owners, images and phases. `sys.intern` is the
pool: it lets go of a string with its last user, so it cannot grow without bound.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import Any, TypeVar

import msgspec
from msgspec.structs import force_setattr

T = TypeVar("T")

_LONGEST = 256
"""Longer texts (annotations with whole specs) are seldom equal: not worth the hashing."""


def share(one: T) -> T:
    """The same object, whose strings are shared with all others that passed through here.

    Views are frozen for everyone else; here, before anyone has seen the object, equal parts are
    swapped for equal parts, which no one can tell.
    """
    if isinstance(one, msgspec.Struct):
        _share_fields(one)
    return one


def _share_fields(one: msgspec.Struct) -> None:
    for name in _fields(type(one)):
        value = getattr(one, name)
        if value.__class__ is str:
            if value and len(value) <= _LONGEST:
                force_setattr(one, name, intern(value))
        elif value.__class__ is dict:
            _share_dict(value)
        elif value.__class__ is tuple or value.__class__ is list:
            for part in value:
                if isinstance(part, msgspec.Struct):
                    _share_fields(part)
        elif isinstance(value, msgspec.Struct):
            _share_fields(value)


def _share_dict(pairs: dict[Any, Any]) -> None:
    for key, value in pairs.items():
        if value.__class__ is str and len(value) <= _LONGEST:
            pairs[key] = intern(value)


# Unique to each object, so that sharing would only cost.
_UNIQUE = frozenset({"name", "resource_version"})


@lru_cache(maxsize=256)
def _fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name not in _UNIQUE)
