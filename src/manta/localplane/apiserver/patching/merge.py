"""JSON merge patches (RFC 7396), as kube-apiserver applies them."""

from __future__ import annotations

from typing import Any

from manta.localplane.apiserver.patching.errors import malformed


def apply_merge_patch(obj: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return the object after `patch`: null deletes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        raise malformed("invalid merge patch: the patch must be an object")
    return _merge(obj, patch)


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(target)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(current := merged.get(key), dict):
            merged[key] = _merge(current, value)
        else:
            merged[key] = _without_nulls(value)
    return merged


def _without_nulls(value: Any) -> Any:
    """Return a new value without null members, also in lists, as in kube-apiserver."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
