"""Constraints on one value, compiled to closures.

A check is called with a value of the right type. Most schemas have no constraints and no check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from manta.localplane.apiserver.schema import causes
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.schema.formats import known_format
from manta.localplane.apiserver.schema.paths import Path, spell
from manta.localplane.apiserver.schema.regex import BadPatternError, compile_pattern

ValueCheck = Callable[[Any, Path, list[Cause]], None]


def compile_checks(schema: Mapping[str, Any]) -> ValueCheck | None:
    """Return all constraints of a schema on the value itself as one function; None without any."""
    made = {
        keyword: check
        for keyword, make in _MAKERS.items()
        if keyword in schema and (check := make(schema[keyword], schema)) is not None
    }
    text = _first_failing([made.pop(keyword) for keyword in _ON_TEXT if keyword in made])
    found = [*text, *made.values()]
    if len(found) <= 1:
        return found[0] if found else None

    def check_all(value: Any, path: Path, out: list[Cause]) -> None:
        for check in found:
            check(value, path, out)

    return check_all


_ON_TEXT = ("maxLength", "minLength", "pattern")


def _first_failing(checks: list[ValueCheck]) -> list[ValueCheck]:
    """kube-apiserver reports only the first failed constraint of a string."""
    if len(checks) <= 1:
        return checks

    def check_until(value: Any, path: Path, out: list[Cause]) -> None:
        before = len(out)
        for check in checks:
            check(value, path, out)
            if len(out) > before:
                return

    return [check_until]


def _message(path: Path, why: str) -> str:
    return f"{spell(path)} in body {why}"


def _pattern(pattern: str, _: Mapping[str, Any]) -> ValueCheck:
    try:
        search = compile_pattern(pattern).search
    except BadPatternError as error:
        bad = f"{pattern}, but pattern is invalid: {error}"
        return lambda value, path, out: _fail(value, path, out, f"should match '{bad}'")

    def check(value: Any, path: Path, out: list[Cause]) -> None:
        if isinstance(value, str) and search(value) is None:
            _fail(value, path, out, f"should match '{pattern}'")

    return check


def _fail(value: Any, path: Path, out: list[Cause], why: str) -> None:
    out.append(causes.invalid(spell(path), value, _message(path, why)))


def _max_length(limit: int, _: Mapping[str, Any]) -> ValueCheck:
    def check(value: Any, path: Path, out: list[Cause]) -> None:
        if isinstance(value, str) and len(value) > limit:
            out.append(causes.too_long(spell(path), limit))

    return check


def _min_length(limit: int, _: Mapping[str, Any]) -> ValueCheck:
    def check(value: Any, path: Path, out: list[Cause]) -> None:
        if isinstance(value, str) and len(value) < limit:
            _fail(value, path, out, f"should be at least {limit} chars long")

    return check


def _format(name: str, _: Mapping[str, Any]) -> ValueCheck | None:
    test = known_format(name)
    if test is None:
        return None

    def check(value: Any, path: Path, out: list[Cause]) -> None:
        if isinstance(value, str) and not test(value):
            detail = _message(path, f"must be of type {name}: {causes.quoted(value)}")
            out.append(causes.type_invalid(spell(path), value, detail))

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _maximum(limit: float, schema: Mapping[str, Any]) -> ValueCheck:
    exclusive = bool(schema.get("exclusiveMaximum"))
    detail = f"should be less than {'' if exclusive else 'or equal to '}"

    def check(value: Any, path: Path, out: list[Cause]) -> None:
        if _is_number(value) and (value > limit or (exclusive and value == limit)):
            _fail(value, path, out, detail + _like(value, limit))

    return check


def _minimum(limit: float, schema: Mapping[str, Any]) -> ValueCheck:
    exclusive = bool(schema.get("exclusiveMinimum"))
    detail = f"should be greater than {'' if exclusive else 'or equal to '}"

    def check(value: Any, path: Path, out: list[Cause]) -> None:
        if _is_number(value) and (value < limit or (exclusive and value == limit)):
            _fail(value, path, out, detail + _like(value, limit))

    return check


def _like(value: float, limit: float) -> str:
    """Return a limit as Go prints it: an integer for integer values, otherwise with %v."""
    if isinstance(value, int):
        return str(int(limit))
    exponent = f"{limit:e}".rpartition("e")[2]
    if limit and not -4 <= int(exponent) < 21:
        return repr(float(limit))
    return repr(float(limit)).removesuffix(".0")


def _multiple_of(factor: float, _: Mapping[str, Any]) -> ValueCheck:
    def check(value: Any, path: Path, out: list[Cause]) -> None:
        if _is_number(value) and (value / factor) % 1:
            _fail(value, path, out, f"should be a multiple of {_like(value, factor)}")

    return check


def _max_items(limit: int, _: Mapping[str, Any]) -> ValueCheck:
    def check(value: Any, path: Path, out: list[Cause]) -> None:
        if isinstance(value, list) and len(value) > limit:
            out.append(causes.too_many(spell(path), len(value), limit))

    return check


def _min_items(limit: int, _: Mapping[str, Any]) -> ValueCheck:
    def check(value: Any, path: Path, out: list[Cause]) -> None:
        if isinstance(value, list) and len(value) < limit:
            _fail(len(value), path, out, f"should have at least {limit} items")

    return check


def _unique_items(wanted: bool, _: Mapping[str, Any]) -> ValueCheck | None:  # noqa: FBT001
    if not wanted:
        return None

    def check(value: Any, path: Path, out: list[Cause]) -> None:
        if isinstance(value, list) and len({causes.compact_json(v) for v in value}) < len(value):
            _fail("", path, out, "shouldn't contain duplicates")

    return check


def _max_properties(limit: int, _: Mapping[str, Any]) -> ValueCheck:
    def check(value: Any, path: Path, out: list[Cause]) -> None:
        if isinstance(value, dict) and len(value) > limit:
            out.append(causes.too_many(spell(path), len(value), limit))

    return check


def _min_properties(limit: int, _: Mapping[str, Any]) -> ValueCheck:
    def check(value: Any, path: Path, out: list[Cause]) -> None:
        if isinstance(value, dict) and len(value) < limit:
            _fail(len(value), path, out, f"should have at least {limit} properties")

    return check


def _enum(allowed: list[Any], _: Mapping[str, Any]) -> ValueCheck:
    choices = [(type(item) is bool, item) for item in allowed]

    def check(value: Any, path: Path, out: list[Cause]) -> None:
        if (type(value) is bool, value) not in choices:
            out.append(causes.not_supported(spell(path), value, allowed))

    return check


_MAKERS: dict[str, Callable[[Any, Mapping[str, Any]], ValueCheck | None]] = {
    "maxLength": _max_length,
    "minLength": _min_length,
    "pattern": _pattern,
    "format": _format,
    "multipleOf": _multiple_of,
    "maximum": _maximum,
    "minimum": _minimum,
    "maxItems": _max_items,
    "minItems": _min_items,
    "uniqueItems": _unique_items,
    "enum": _enum,
    "maxProperties": _max_properties,
    "minProperties": _min_properties,
}
