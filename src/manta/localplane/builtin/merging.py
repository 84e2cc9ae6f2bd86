"""Views as plain JSON, and the smallest merge patch from one JSON value to another. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from manta.api.meta import View


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What has to be merged into `old` to get `new`; empty when they are equal.

    A field that went away is patched with null, because a merge patch cannot say it otherwise.
    """
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if name in old and before == value:
            continue
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            patch[name] = merge_patch(before, value)
        else:
            patch[name] = value
    return patch


def view_patch(old: View, new: View) -> dict[str, Any]:
    """The merge patch between two views; fields that the views do not know stay untouched."""
    return merge_patch(plain(old), plain(new))


def plain(view: Any) -> Any:
    """What goes over the wire: dicts and lists, fields at their default left out."""
    return msgspec.json.decode(msgspec.json.encode(view))
