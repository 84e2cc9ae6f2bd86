"""anyOf, oneOf, allOf and not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from manta.localplane.apiserver.schema import causes
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.schema.node import Node
from manta.localplane.apiserver.schema.paths import Path, spell
from manta.localplane.apiserver.schema.validation import ABSENT, TYPE_NAMES, check_node
from manta.localplane.apiserver.schema.values import ValueCheck

Compile = Callable[[Mapping[str, Any]], Node]

# How CRDs write int-or-string.
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def compile_combinators(schema: Mapping[str, Any], compile_node: Compile) -> ValueCheck | None:
    int_or_string = schema.get("x-kubernetes-int-or-string") is True
    checks: list[ValueCheck] = []
    if int_or_string and schema.get("anyOf") == INT_OR_STRING:
        checks.append(_int_or_string)
    elif "anyOf" in schema:
        checks.append(_any_of([compile_node(sub) for sub in schema["anyOf"]]))
    if "oneOf" in schema:
        checks.append(_one_of([compile_node(sub) for sub in schema["oneOf"]]))
    if "allOf" in schema:
        branches = [_inside(sub, int_or_string=int_or_string) for sub in schema["allOf"]]
        checks.append(_all_of([compile_node(sub) for sub in branches]))
    if "not" in schema:
        checks.append(_not(compile_node(schema["not"])))
    if not checks:
        return None

    def check_all(value: Any, path: Path, out: list[Cause]) -> None:
        for check in checks:
            check(value, path, out)

    return check_all


def _inside(branch: Mapping[str, Any], *, int_or_string: bool) -> Mapping[str, Any]:
    if int_or_string and branch.get("anyOf") == INT_OR_STRING:
        return {key: value for key, value in branch.items() if key != "anyOf"}
    return branch


def _failures(node: Node, value: Any, path: Path) -> list[Cause]:
    found: list[Cause] = []
    check_node(node, value, ABSENT, path, found)
    return found


def _combined(path: Path, complaint: str) -> Cause:
    """kube-apiserver reports these without a field, and names it in the message."""
    return causes.invalid("<nil>", "", f'"{spell(path)}" {complaint}')


def _nearest(attempts: list[list[Cause]]) -> list[Cause]:
    """Return the causes of the alternative with the fewest."""
    sizes = [len(attempt) for attempt in attempts]
    return attempts[sizes.index(min(sizes))]


def _any_of(nodes: Sequence[Node]) -> ValueCheck:
    def check(value: Any, path: Path, out: list[Cause]) -> None:
        attempts = [_failures(node, value, path) for node in nodes]
        if all(attempts):
            out.append(_combined(path, "must validate at least one schema (anyOf)"))
            out.extend(_nearest(attempts))

    return check


def _int_or_string(value: Any, path: Path, out: list[Cause]) -> None:
    """A faster check for the common anyOf integer, string."""
    if type(value) in {int, str}:
        return
    name, field = TYPE_NAMES[type(value)], spell(path)
    out.append(_combined(path, "must validate at least one schema (anyOf)"))
    detail = f'{field} in body must be of type integer: "{name}"'
    out.append(causes.type_invalid(field, name, detail))


def _one_of(nodes: Sequence[Node]) -> ValueCheck:
    def check(value: Any, path: Path, out: list[Cause]) -> None:
        attempts = [_failures(node, value, path) for node in nodes]
        valid = sum(not attempt for attempt in attempts)
        if valid == 1:
            return
        found = f"Found {valid} valid alternatives" if valid else "Found none valid"
        out.append(_combined(path, f"must validate one and only one schema (oneOf). {found}"))
        if not valid:
            out.extend(_nearest(attempts))

    return check


def _all_of(nodes: Sequence[Node]) -> ValueCheck:
    def check(value: Any, path: Path, out: list[Cause]) -> None:
        attempts = [_failures(node, value, path) for node in nodes]
        if not any(attempts):
            return
        out.extend(cause for attempt in attempts for cause in attempt)
        none = ". None validated" if all(attempts) else ""
        out.append(_combined(path, f"must validate all the schemas (allOf){none}"))

    return check


def _not(node: Node) -> ValueCheck:
    def check(value: Any, path: Path, out: list[Cause]) -> None:
        if not _failures(node, value, path):
            out.append(_combined(path, "must not validate the schema (not)"))

    return check
