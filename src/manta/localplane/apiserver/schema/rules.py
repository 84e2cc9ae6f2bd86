"""x-kubernetes-validations: evaluates the CEL rules of a schema, also on updates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from manta.localplane.apiserver.schema import causes
from manta.localplane.apiserver.schema.causes import OMITTED, Cause
from manta.localplane.apiserver.schema.cel import (
    BadExpressionError,
    EvaluationError,
    Program,
    compile_expression,
)
from manta.localplane.apiserver.schema.cel.errors import NO_OVERLOAD
from manta.localplane.apiserver.schema.cel.values import Maybe
from manta.localplane.apiserver.schema.node import Node
from manta.localplane.apiserver.schema.paths import MapKey, Path, spell
from manta.localplane.apiserver.schema.validation import ABSENT, correlate

MAX_MESSAGE_CHARACTERS = 5 * 1024


@dataclass(frozen=True, slots=True)
class Rule:
    text: str
    message: str
    reason: str
    field: str
    """Where a failure is reported below the value: `name` for the fieldPath `.name`."""
    program: Program | None
    message_program: Program | None
    error: str
    """Why the rule cannot be evaluated; a CRD with such a rule is refused."""
    optional_old_self: bool

    @property
    def transition(self) -> bool:
        return self.program is not None and self.program.uses_old_self


def compile_rules(rules: Iterable[Mapping[str, Any]]) -> tuple[Rule, ...]:
    return tuple(_compile(rule) for rule in rules)


def _compile(rule: Mapping[str, Any]) -> Rule:
    program = message_program = None
    error = ""
    try:
        program = compile_expression(rule["rule"])
        if rule.get("messageExpression"):
            message_program = compile_expression(rule["messageExpression"])
    except BadExpressionError as failure:
        error = failure.shown_in(rule["rule"])
    return Rule(
        text=rule["rule"].strip(),
        message=rule.get("message", "").strip(),
        reason=rule.get("reason", ""),
        field=normal_field_path(rule.get("fieldPath", "")),
        program=program,
        message_program=message_program,
        error=error,
        optional_old_self=rule.get("optionalOldSelf") is True,
    )


def normal_field_path(text: str) -> str:
    """Return `.a['b-c']` as `a.b-c`, as messages print it."""
    parts = re.findall(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]", text)
    return ".".join(plain or bracketed.replace("\\'", "'") for plain, bracketed in parts)


def check_rules(
    root: Node, obj: dict[str, Any], old: dict[str, Any] | None, out: list[Cause]
) -> None:
    """Append a cause for each rule that `obj`, or the change from `old`, violates."""
    _walk(root, obj, ABSENT if old is None else old, None, out)


def _walk(node: Node, value: Any, old: Any, path: Path, out: list[Cause]) -> None:
    if value is None or not (node.transitions_below if value is old else node.rules_below):
        return
    for rule in node.rules:
        _check(node, rule, value, old, (path, out))
    if type(value) is dict:
        before = old if type(old) is dict and node.map_type != "atomic" else {}
        for name, member in value.items():
            child = node.properties.get(name)
            segment = name
            if child is None:
                child, segment = node.additional, MapKey(name)
            if child is not None and child.rules_below:
                _walk(child, member, before.get(name, ABSENT), (path, segment), out)
    elif type(value) is list and node.items is not None and node.items.rules_below:
        olds = correlate(node, value, old)
        for index, item in enumerate(value):
            _walk(node.items, item, olds[index] if olds else ABSENT, (path, index), out)


def _check(node: Node, rule: Rule, value: Any, old: Any, report: tuple[Path, list[Cause]]) -> None:
    path, out = report
    if rule.program is None:
        out.append(causes.invalid(spell(path), node.type_, f"rule compile error: {rule.error}"))
        return
    variables = {"self": value}
    if rule.transition:
        if rule.optional_old_self:
            variables["oldSelf"] = Maybe(None if old is ABSENT else old, old is not ABSENT)
        elif old is ABSENT:
            return
        else:
            variables["oldSelf"] = old
    elif value == old:
        return  # ratcheting: unchanged values may stay invalid
    try:
        passed = rule.program.evaluate(variables)
    except EvaluationError as error:
        out.append(causes.invalid(spell(path), node.type_, _failure(rule, str(error))))
        return
    if passed is not True:
        out.append(_violation(node, rule, variables, path))


def _failure(rule: Rule, error: str) -> str:
    shown = rule.message or rule.text
    if error.startswith(NO_OVERLOAD):
        return (
            f"'{error}': call arguments did not match a supported operator, function or macro "
            f"signature for rule: {shown}"
        )
    if error.startswith("operation cancelled"):
        return (
            f"'{error}': no further validation rules will be run due to call cost exceeds limit "
            f"for rule: {shown}"
        )
    return f"{error} evaluating rule: {shown}"


def _violation(node: Node, rule: Rule, variables: dict[str, Any], path: Path) -> Cause:
    detail = _computed_message(rule, variables) or rule.message or f"failed rule: {rule.text}"
    field = spell(path)
    if rule.field:
        field = f"{field}.{rule.field}" if field else rule.field
    if rule.reason == "FieldValueForbidden":
        return causes.forbidden(field, detail)
    if rule.reason == "FieldValueRequired":
        return causes.required(field, detail)
    value = OMITTED if node.type_ in {"object", "array"} else variables["self"]
    if rule.reason == "FieldValueDuplicate":
        return causes.duplicate(field, value)
    return causes.invalid(field, value, detail)


def _computed_message(rule: Rule, variables: dict[str, Any]) -> str:
    if rule.message_program is None:
        return ""
    try:
        message = rule.message_program.evaluate(variables)
    except (EvaluationError, KeyError):  # KeyError: there is no oldSelf
        return ""
    if (
        not isinstance(message, str)
        or len(message) > MAX_MESSAGE_CHARACTERS
        or "\n" in message.strip()
    ):
        return ""
    return message.strip()
