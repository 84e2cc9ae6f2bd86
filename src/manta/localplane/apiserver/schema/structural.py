"""Checks that the schema of a CRD is structural: that it gives the type of every value exactly once.

Pruning and defaulting need that. Messages and paths are those of kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from manta.localplane.apiserver.schema import causes
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.schema.combinators import INT_OR_STRING
from manta.localplane.apiserver.schema.compilation import compile_node
from manta.localplane.apiserver.schema.defaulting import fill_defaults
from manta.localplane.apiserver.schema.pruning import prune_value
from manta.localplane.apiserver.schema.regex import BadPatternError, compile_pattern
from manta.localplane.apiserver.schema.rule_checks import check_rules_of
from manta.localplane.apiserver.schema.validation import ABSENT, check_node

Schema = Mapping[str, Any]

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_EMPTY_TYPE: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_NESTED_ONLY: Final = {
    "type": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "additionalProperties": "must be undefined to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_UNSUPPORTED: Final = ("$ref", "id", "definitions", "dependencies", "patternProperties")


def check_structural(schema: Schema, path: str) -> list[Cause]:
    """Return what is invalid in a schema, in the order of kube-apiserver."""
    found = [*_schema(schema, path, "root")]
    return sorted(found, key=lambda cause: f"{cause.field}: {cause.message}")


def _schema(schema: Schema, path: str, level: str, uncorrelated: str = "") -> Iterator[Cause]:
    for check in _CHECKS:
        yield from check(schema, path, level)
    yield from check_rules_of(schema, path, uncorrelated)
    for name, sub in schema.get("properties", {}).items():
        yield from _schema(sub, f"{path}.properties[{name}]", "field", uncorrelated)
    if isinstance(schema.get("items"), dict):
        keyed = schema.get("x-kubernetes-list-type") == "map"
        yield from _schema(
            schema["items"], f"{path}.items", "item", uncorrelated or ("" if keyed else path)
        )
    if isinstance(schema.get("additionalProperties"), dict):
        below = f"{path}.additionalProperties"
        yield from _schema(schema["additionalProperties"], below, "field", uncorrelated)
    yield from _nested_schemas(schema, path)


def _type(schema: Schema, path: str, level: str) -> Iterator[Cause]:
    type_ = schema.get("type", "")
    loose = schema.get("x-kubernetes-int-or-string") or schema.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    if schema.get("x-kubernetes-embedded-resource") and type_ != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        field = f"{path}.type"
        yield causes.invalid(field, type_, detail) if type_ else causes.required(field, detail)
    elif not type_ and not loose:
        yield causes.required(f"{path}.type", _EMPTY_TYPE[level])
    if type_ and type_ not in TYPES:
        yield causes.not_supported(f"{path}.type", type_, TYPES)
    elif level == "root" and type_ and type_ != "object":
        yield causes.invalid(f"{path}.type", type_, "must be object at the root")


def _containers(schema: Schema, path: str, level: str) -> Iterator[Cause]:
    more = schema.get("additionalProperties")
    if schema.get("type") == "array" and schema.get("items") is None:
        yield causes.required(f"{path}.items", "must be specified")
    if isinstance(schema.get("items"), list):
        yield causes.forbidden(f"{path}.items", "items must be a schema object and not an array")
    if more is not None and level == "root":
        yield causes.forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if more is not None and schema.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield causes.forbidden(f"{path}.additionalProperties", detail)
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield causes.forbidden(f"{path}.uniqueItems", detail)


def _keywords(schema: Schema, path: str, _: str) -> Iterator[Cause]:
    for keyword in _UNSUPPORTED:
        if schema.get(keyword):
            yield causes.forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if schema.get("pattern"):
        try:
            compile_pattern(schema["pattern"])
        except BadPatternError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield causes.invalid(f"{path}.pattern", schema["pattern"], detail)
    if schema.get("x-kubernetes-int-or-string"):
        for other in ("preserve-unknown-fields", "embedded-resource"):
            if schema.get(f"x-kubernetes-{other}"):
                detail = "must be false if x-kubernetes-int-or-string is true"
                yield causes.invalid(f"{path}.x-kubernetes-{other}", True, detail)


def _metadata(schema: Schema, path: str, level: str) -> Iterator[Cause]:
    if level != "root" and not schema.get("x-kubernetes-embedded-resource"):
        return
    properties = schema.get("properties", {})
    for name in ("apiVersion", "kind"):
        type_ = properties.get(name, {"type": "string"}).get("type", "")
        if type_ != "string":
            yield causes.invalid(f"{path}.properties[{name}].type", type_, "must be string")
    preserve = schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("x-kubernetes-embedded-resource") and not preserve and not properties:
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        yield causes.required(f"{path}.properties", detail)
    metadata = properties.get("metadata")
    if metadata is None:
        return
    field = f"{path}.properties[metadata]"
    if metadata.get("type") != "object":
        yield causes.invalid(f"{field}.type", metadata.get("type", ""), "must be object")
    rest = metadata.keys() - {"type", "description", "properties"}
    if level == "root" and (
        rest or metadata.get("properties", {}).keys() - {"name", "generateName"}
    ):
        yield causes.forbidden(
            field,
            "must not specify anything other than name and generateName, "
            "but metadata is implicitly specified",
        )


def _list_types(schema: Schema, path: str, _: str) -> Iterator[Cause]:
    list_type = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if list_type is None and not keys:
        return
    field = f"{path}.x-kubernetes-list-type"
    if list_type is not None and list_type not in {"atomic", "set", "map"}:
        yield causes.not_supported(field, list_type, ("atomic", "set", "map"))
    if schema.get("type") != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        yield causes.invalid(f"{path}.type", schema.get("type", ""), detail)
    if list_type == "map":
        yield from _map_keys(schema, path, keys)
    elif keys:
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield (
            causes.invalid(field, list_type, detail)
            if list_type
            else causes.required(field, detail)
        )


def _map_types(schema: Schema, path: str, _: str) -> Iterator[Cause]:
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is not None:
        if map_type not in {"atomic", "granular"}:
            field = f"{path}.x-kubernetes-map-type"
            yield causes.not_supported(field, map_type, ("atomic", "granular"))
        if schema.get("type") != "object":
            detail = "must be object if x-kubernetes-map-type is specified"
            yield causes.invalid(f"{path}.type", schema.get("type", ""), detail)
    items = schema.get("items")
    if schema.get("x-kubernetes-list-type") == "set" and isinstance(items, dict):
        atomic = items.get("x-kubernetes-map-type") == "atomic"
        if items.get("type") == "object" and not atomic:
            detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
            given = items.get("x-kubernetes-map-type")
            yield causes.invalid(f"{path}.items.x-kubernetes-map-type", given, detail)


def _map_keys(schema: Schema, path: str, keys: Any) -> Iterator[Cause]:
    if not keys:
        detail = "must not be empty if x-kubernetes-list-type is map"
        yield causes.required(f"{path}.x-kubernetes-list-map-keys", detail)
    items = schema.get("items") if isinstance(schema.get("items"), dict) else None
    if items is None:
        yield causes.required(
            f"{path}.items", "must have a schema if x-kubernetes-list-type is map"
        )
        return
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield causes.invalid(f"{path}.items.type", items.get("type", ""), detail)
    for key in keys:
        known = items.get("properties", {}).get(key)
        if known is None:
            detail = "entries must all be names of item properties"
            yield causes.invalid(f"{path}.x-kubernetes-list-map-keys", list(keys), detail)
        elif known.get("type") in {"object", "array"}:
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield causes.invalid(f"{path}.items.properties[{key}].type", known["type"], detail)
        elif key not in items.get("required", ()) and known.get("default") is None:
            yield causes.required(
                f"{path}.items.properties[{key}].default",
                "this property is in x-kubernetes-list-map-keys, so it must have a default "
                "or be a required property",
            )


def _default(schema: Schema, path: str, level: str) -> Iterator[Cause]:
    if "default" not in schema:
        return
    if level == "root":
        yield causes.forbidden(f"{path}.default", "must not be set at the root")
        return
    found: list[Cause] = []
    node = compile_node({key: value for key, value in schema.items() if key != "default"})
    check_node(node, fill_defaults(node, schema["default"]), ABSENT, None, found)
    if not found and prune_value(node, schema["default"]) != schema["default"]:
        yield causes.invalid(f"{path}.default", schema["default"], "must not have unknown fields")
    for cause in found:
        field = f"{path}.default.{cause.field}" if cause.field else f"{path}.default"
        yield Cause(cause.reason, cause.message, field)


_CHECKS: Final[tuple[Callable[[Schema, str, str], Iterator[Cause]], ...]] = (
    _type,
    _containers,
    _keywords,
    _metadata,
    _list_types,
    _map_types,
    _default,
)


def _nested_schemas(schema: Schema, path: str) -> Iterator[Cause]:
    """anyOf and its relatives may add constraints, never structure."""
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    for keyword in ("anyOf", "allOf", "oneOf"):
        branches = schema.get(keyword) or ()
        if keyword == "anyOf" and int_or_string and branches == INT_OR_STRING:
            continue
        for index, branch in enumerate(branches):
            inner = branch
            if keyword == "allOf" and index == 0 and branch.get("anyOf") == INT_OR_STRING:
                inner = {key: value for key, value in branch.items() if key != "anyOf"}
            yield from _nested(inner, f"{path}.{keyword}[{index}]")
    if isinstance(schema.get("not"), dict):
        yield from _nested(schema["not"], f"{path}.not")


def _nested(schema: Schema, path: str) -> Iterator[Cause]:
    for keyword, detail in _NESTED_ONLY.items():
        if schema.get(keyword) not in (None, False, "", []):
            yield causes.forbidden(f"{path}.{keyword}", detail)
    properties = schema.get("properties", {})
    if "metadata" in properties:
        detail = "must not be specified in a nested context"
        yield causes.forbidden(f"{path}.properties[metadata]", detail)
    for name, sub in properties.items():
        yield from _nested(sub, f"{path}.properties[{name}]")
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    yield from _keywords(schema, path, "nested")
    yield from _nested_schemas(schema, path)
