"""Schemas of the built-in kinds, from their table, with what patches need to know."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from manta.localplane.apiserver.builtin_kinds.messages import (
    Field,
    flat_fields,
    is_message,
    message,
    table,
)

_PREFIX: Final = "#/components/schemas/"
_PACKAGES: Final = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
}
_SCALARS: Final[dict[str, dict[str, Any]]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float": {"type": "number", "format": "double"},
    "Time": {"type": "string", "format": "date-time"},
    "MicroTime": {"type": "string", "format": "date-time"},
    "Duration": {"type": "string"},
    "Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "Raw": {"type": "object"},
    "Strings": {"type": "array", "items": {"type": "string"}},
}


def component_name(message_name: str) -> str:
    """The name in documents: `io.k8s.api.core.v1.PodSpec` for `core.PodSpec`."""
    package, _, name = message_name.rpartition(".")
    group, _, version = package.partition("_")
    usual = f"io.k8s.api.{group}.{version or 'v1'}"
    return f"{_PACKAGES.get(package, usual)}.{name}"


OBJECT_META: Final = component_name("meta.ObjectMeta")
LIST_META: Final = f"{_PACKAGES['meta']}.ListMeta"
_LIST_META_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "continue": {"type": "string"},
        "remainingItemCount": {"type": "integer", "format": "int64"},
        "resourceVersion": {"type": "string"},
        "selfLink": {"type": "string"},
    },
}


def reference(component: str) -> dict[str, Any]:
    return {"$ref": _PREFIX + component}


@cache
def _components() -> dict[str, str]:
    return {component_name(name): name for name in table().messages}


def with_dependencies(schemas: dict[str, Any]) -> dict[str, Any]:
    """The schemas, with those of all built-in types that they refer to."""
    found = dict(schemas)
    for name, schema in schemas.items():
        if name in _components():
            found[name] = _schema(_components()[name]) | schema | {"properties": _kind(name)}
    waiting = list(found)
    while waiting:
        for target in _mentioned(found[waiting.pop()]):
            if target not in found:
                found[target] = _dependency(target)
                waiting.append(target)
    return found


def _dependency(name: str) -> dict[str, Any]:
    if name == LIST_META:
        return _LIST_META_SCHEMA
    return _schema(_components()[name]) if name in _components() else {"type": "object"}


def _kind(name: str) -> dict[str, Any]:
    text = {"type": "string"}
    properties: dict[str, Any] = _schema(_components()[name])["properties"]
    return {"apiVersion": text, "kind": text, **properties}


def _mentioned(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, member in value.items():
            if key == "$ref" and isinstance(member, str):
                yield member.removeprefix(_PREFIX)
            else:
                yield from _mentioned(member)
    elif isinstance(value, list):
        for item in value:
            yield from _mentioned(item)


def _schema(name: str) -> dict[str, Any]:
    fields = flat_fields(name)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field.name: _property(field) for field in fields},
    }
    if required := [field.name for field in fields if field.required]:
        schema["required"] = required
    if message(name).atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def _property(field: Field) -> dict[str, Any]:
    element = _element(field.element)
    if field.repeated:
        schema: dict[str, Any] = {"type": "array", "items": element}
    elif field.keyed:
        schema = {"type": "object", "additionalProperties": element}
    else:
        schema = {"allOf": [element]} if "$ref" in element else dict(element)
    for name, value in (
        ("x-kubernetes-list-type", field.list_type),
        ("x-kubernetes-list-map-keys", list(field.list_map_keys)),
        ("x-kubernetes-map-type", "atomic" if field.atomic else ""),
        ("x-kubernetes-patch-strategy", field.strategy),
        ("x-kubernetes-patch-merge-key", field.merge_key),
        ("default", field.default),
    ):
        if value not in ("", [], None):
            schema[name] = value
    return schema


def _element(type_: str) -> dict[str, Any]:
    if is_message(type_):
        return reference(component_name(type_))
    return _SCALARS.get(type_, {})
