"""Validation of the replica counts that the `scale` subresource of a custom resource shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manta.localplane.apiserver.patching.go_text import go_text
from manta.localplane.apiserver.schema.causes import Cause, invalid
from manta.localplane.apiserver.strategies.base import ScalePaths

_MOST = 2**31 - 1
_GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64", list: "[]interface {}"}


def scale_causes(paths: ScalePaths | None, obj: Mapping[str, Any]) -> Iterator[Cause]:
    if paths is None:
        return
    for path in (paths.spec_replicas, paths.status_replicas):
        found, error = _integer(obj, path)
        field = "." + ".".join(path)
        if not error and found < 0:
            error = "should be a non-negative integer"
        elif not error and found > _MOST:
            error = f"should be less than or equal to {_MOST}"
        if error:
            yield invalid(field, found, error)


def _integer(obj: Any, path: tuple[str, ...]) -> tuple[int, str]:
    """The number at a path and no error, or 0 and the error."""
    for depth, name in enumerate(path):
        if not isinstance(obj, Mapping):
            return 0, _type_error(obj, path[: depth + 1], "map[string]interface{}")
        if obj.get(name) is None:
            return 0, ""
        obj = obj[name]
    if type(obj) is int:
        return obj, ""
    return 0, _type_error(obj, path, "int64")


def _type_error(value: Any, path: tuple[str, ...], wanted: str) -> str:
    kind = _GO_TYPES.get(type(value), "map[string]interface {}")
    where = "." + ".".join(path)
    return f"{where} accessor error: {go_text(value)} is of the type {kind}, expected {wanted}"
