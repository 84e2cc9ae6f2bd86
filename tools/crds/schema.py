"""From types to structural schemas: msgspec Structs, their annotations, and Kubernetes' models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from manta.api.meta import Condition

Schema = dict[str, Any]

MODELS = json.loads(Path(__file__).with_name("kubernetes_models.json").read_bytes())

_INT_OR_STRING: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
_QUANTITY: Schema = {
    **_INT_OR_STRING,
    "pattern": rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$",
}
_TEXT: Schema = {"type": "string"}
_TEXT_MAP: Schema = {"type": "object", "additionalProperties": _TEXT}
_OBJECT_META: Schema = {
    "type": "object",
    "properties": {
        "annotations": _TEXT_MAP,
        "finalizers": {"type": "array", "items": _TEXT},
        "labels": _TEXT_MAP,
        "name": _TEXT,
        "namespace": _TEXT,
    },
}
"""Metadata of an embedded object: what may be said of a Pod before it exists."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_CONDITION: Schema = {
    "type": "object",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "message": {"type": "string", "maxLength": 32768},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "reason": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "type": {
            "type": "string",
            "maxLength": 316,
            "pattern": rf"^({_LABEL}(\.{_LABEL})*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
    },
}
"""The conventions of metav1.Condition, which its OpenAPI document does not print."""

SPECIAL: dict[str, Schema] = {
    "Quantity": _QUANTITY,
    "IntOrString": _INT_OR_STRING,
    "ObjectMeta": _OBJECT_META,
    "Condition": _CONDITION,
}
"""Models that a CRD spells differently."""


# ── Kubernetes' models ───────────────────────────────────────────────────────────────────


def model_schema(name: str) -> Schema:
    """The schema of a Kubernetes model by its short name, with all references written out."""
    return _expand({"ref": MODELS["roots"].get(name, name)})


def _expand(model: Schema) -> Schema:
    reference = model.get("ref")
    if reference:
        target = SPECIAL.get(reference) or _expand(MODELS["models"][reference])
        extra = {word: value for word, value in model.items() if word != "ref"}
        return {**target, **extra}
    expanded = dict(model)
    if "properties" in model:
        expanded["properties"] = {
            name: _expand(inner) for name, inner in sorted(model["properties"].items())
        }
    for word in ("items", "additionalProperties"):
        if word in model:
            expanded[word] = _expand(model[word])
    if "required" in model:
        expanded["required"] = sorted(model["required"])
    return expanded


# ── our types ────────────────────────────────────────────────────────────────────────────


class Dialect:
    """How one API version differs from the types: nothing, for v1."""

    def fields(self, struct: type, names: list[str]) -> list[str]:
        del struct
        return names

    def required(self, struct: type, names: list[str]) -> list[str]:
        del struct
        return names

    def extra(self, struct: type) -> dict[str, Schema]:
        del struct
        return {}


def struct_schema(struct: type, dialect: Dialect) -> Schema:
    """The schema of one of our Structs, fields in alphabetical order."""
    if struct is Condition:
        return _CONDITION
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    hints = {field.encode_name: inspect.type_info(field.type) for field in fields.values()}
    names = dialect.fields(struct, list(fields))
    properties = {name: _described(hints[name], dialect) for name in names}
    properties |= dialect.extra(struct)
    required = [name for name in names if _extra(hints[name]).get("required")]
    schema: Schema = {"type": "object", "properties": dict(sorted(properties.items()))}
    required = dialect.required(struct, required)
    if required:
        schema["required"] = sorted(required)
    return schema


def _described(kind: inspect.Type, dialect: Dialect) -> Schema:
    """A field: its words, its type, then what the annotation adds."""
    words = (kind.extra_json_schema or {}) if isinstance(kind, inspect.Metadata) else {}
    schema: Schema = {"description": words["description"]} if "description" in words else {}
    schema |= _type_schema(kind, dialect, "")
    return schema


def _extra(kind: inspect.Type) -> dict[str, Any]:
    return (kind.extra or {}) if isinstance(kind, inspect.Metadata) else {}


def _type_schema(kind: inspect.Type, dialect: Dialect, model: str) -> Schema:
    if isinstance(kind, inspect.Metadata):
        extra = _extra(kind)
        if struct := extra.get("struct"):
            return struct_schema(struct, dialect)
        inner = _type_schema(kind.type, dialect, extra.get("model") or model)
        return {**inner, **extra.get("schema", {})}
    if isinstance(kind, inspect.UnionType):
        return _union_schema(kind, dialect, model)
    if isinstance(kind, inspect.VarTupleType):
        return {"type": "array", "items": _type_schema(kind.item_type, dialect, model)}
    if isinstance(kind, inspect.StructType):
        return struct_schema(kind.cls, dialect)
    if model:
        return model_schema(model)
    if isinstance(kind, inspect.DictType):
        values = _type_schema(kind.value_type, dialect, "")
        return {"type": "object", "additionalProperties": values}
    return _scalar_schema(kind)


def _union_schema(kind: inspect.UnionType, dialect: Dialect, model: str) -> Schema:
    """`X | None` is X that may be absent; a union of scalars has a model."""
    if model in ("Quantity", "IntOrString"):
        return SPECIAL[model]
    [only] = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
    return _type_schema(only, dialect, model)


def _scalar_schema(kind: inspect.Type) -> Schema:
    match kind:
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType():
            return {"type": "integer", "format": "int32"}
        case inspect.FloatType():
            return {"type": "number"}
        case inspect.StrType():
            return {"type": "string"}
        case _:
            raise TypeError(f"no schema for {kind}")
