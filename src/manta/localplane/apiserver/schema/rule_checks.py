"""Checks the CEL rules of a CRD: they must compile and use fields that exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from manta.localplane.apiserver.schema import causes
from manta.localplane.apiserver.schema.causes import Cause, compact_json, quoted
from manta.localplane.apiserver.schema.cel import BadExpressionError, compile_expression
from manta.localplane.apiserver.schema.cel.parser import (
    Call,
    Index,
    ListOf,
    Literal,
    MapOf,
    Name,
    Operation,
    Select,
    Tree,
    parse,
)
from manta.localplane.apiserver.schema.rules import normal_field_path

Schema = Mapping[str, Any]

REASONS: Final = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_LOOPS: Final = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})
_SCALARS: Final = {"string": "string", "integer": "int", "number": "double", "boolean": "bool"}
_META: Final = frozenset({"apiVersion", "kind", "metadata"})


def check_rules_of(schema: Schema, path: str, uncorrelated: str) -> Iterator[Cause]:
    """Yield what is invalid. `uncorrelated` is the list above without keys, if any: it has no old values."""
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        yield from _check_rule(
            schema, rule, f"{path}.x-kubernetes-validations[{index}]", uncorrelated
        )


def _check_rule(schema: Schema, rule: Schema, field: str, uncorrelated: str) -> Iterator[Cause]:
    text, message = rule.get("rule", ""), rule.get("message", "")
    if not text.strip():
        yield causes.required(f"{field}.rule", "rule is not specified")
        return
    if "\n" in message.strip():
        yield causes.invalid(f"{field}.message", message, "must not contain line breaks")
    if rule.get("reason") not in (None, *REASONS):
        yield causes.not_supported(f"{field}.reason", rule["reason"], REASONS)
    if rule.get("fieldPath") and not _field_exists(schema, rule["fieldPath"]):
        yield causes.invalid(f"{field}.fieldPath", rule["fieldPath"], "must be a valid path")
    try:
        program = compile_expression(text)
        _check_fields(parse(text), {"self": schema, "oldSelf": schema})
    except BadExpressionError as error:
        detail = f"compilation failed: {error.shown_in(text)}"
        shown = f"Invalid value: {_internal_form(rule)}: {detail}"
        yield Cause("FieldValueInvalid", shown, f"{field}.rule")
        return
    if program.uses_old_self and uncorrelated:
        yield causes.invalid(
            f"{field}.rule",
            text,
            "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            f"{uncorrelated}",
        )


def _internal_form(rule: Schema) -> str:
    """Return a rule as kube-apiserver prints it: as its Go struct."""
    names = ("Rule", "Message", "MessageExpression", "Reason", "FieldPath", "OptionalOldSelf")
    members = []
    for name in names:
        value = rule.get(name[0].lower() + name[1:])
        if value is None and name not in {"Reason", "OptionalOldSelf"}:
            value = ""
        members.append(f"{quoted(name)}:{compact_json(value)}")
    return "{" + ",".join(members) + "}"


def _field_exists(schema: Schema, field_path: str) -> bool:
    at: Any = schema
    for name in normal_field_path(field_path).split("."):
        more = at.get("additionalProperties")
        below = at.get("properties", {}).get(name, more if isinstance(more, dict) else None)
        if below is None:
            return False
        at = below
    return True


# ── fields ───────────────────────────────────────────────────────────────────────────────
def _check_fields(tree: Tree, known: Mapping[str, Schema]) -> Schema | None:
    """Return the schema of the value of an expression, if known. Raises BadExpressionError."""
    match tree:
        case Name(name):
            return known.get(name)
        case Literal():
            return None
        case Select():
            return _field(tree, _check_fields(tree.target, known))
        case Index(target, key):
            _check_fields(key, known)
            return _element(_check_fields(target, known))
        case Call():
            return _check_call(tree, known)
        case Operation(_, parts) | ListOf(parts):
            for part in parts:
                _check_fields(part, known)
        case MapOf(entries):
            for key, value in entries:
                _check_fields(key, known)
                _check_fields(value, known)
    return None


def _field(select: Select, holder: Schema | None) -> Schema | None:
    if holder is None or "__" in select.field:
        return None
    scalar = _SCALARS.get(str(holder.get("type")))
    if scalar and not holder.get("format"):
        message = f"type '{scalar}' does not support field selection"
        raise BadExpressionError(message, select.at)
    properties = holder.get("properties") or {}
    if select.field in properties:
        found: Schema = properties[select.field]
        return found
    more = holder.get("additionalProperties")
    if more is not None:
        return more if isinstance(more, dict) else None
    open_ended = holder.get("x-kubernetes-preserve-unknown-fields") or select.field in _META
    if properties and not open_ended:
        raise BadExpressionError(f"undefined field '{select.field}'", select.at)
    return None


def _element(holder: Schema | None) -> Schema | None:
    if holder is None:
        return None
    below = holder.get("items") or holder.get("additionalProperties")
    return below if isinstance(below, dict) else None


def _check_call(call: Call, known: Mapping[str, Schema]) -> Schema | None:
    target = None if call.target is None else _check_fields(call.target, known)
    inner = dict(known)
    args = call.args
    if call.target is not None and call.name in _LOOPS and isinstance(args[0], Name):
        inner.pop(args[0].name, None)
        element = _element(target) if target is not None and "items" in target else None
        if element is not None:
            inner[args[0].name] = element
        args = args[1:]
    for arg in args:
        _check_fields(arg, inner)
    return target if call.name == "filter" else None
