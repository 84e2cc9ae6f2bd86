"""`"%s".format([...])`, and the named formats of Kubernetes: `format.dns1123Label()`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from manta.api.names import (
    dns1035_label_errors,
    dns1123_label_errors,
    dns1123_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)
from manta.localplane.apiserver.schema.cel.errors import NO_OVERLOAD, EvaluationError
from manta.localplane.apiserver.schema.cel.values import Maybe, is_number, type_name
from manta.localplane.apiserver.schema.formats import FORMATS

Function: TypeAlias = Callable[..., Any]
_CLAUSE = re.compile(r"%(?:%|(?:\.([0-9]{1,3}))?(.)?)", re.DOTALL)


# ── format() ─────────────────────────────────────────────────────────────────────────────
def format_text(template: Any, values: Any) -> str:
    """The text of `string.format(list)`. Raises EvaluationError."""
    if not isinstance(template, str) or type(values) is not list:
        raise EvaluationError(NO_OVERLOAD)
    used = 0

    def fill(clause: re.Match[str]) -> str:
        nonlocal used
        if clause[0] == "%%":
            return "%"
        if clause[2] is None:
            raise EvaluationError("unexpected end of string")
        if used >= len(values):
            raise EvaluationError(f"index {used} out of range")
        used += 1
        return _formatted(clause[2], clause[1], values[used - 1])

    text = _CLAUSE.sub(fill, template)
    if used != len(values):
        raise EvaluationError(
            f"too many arguments supplied to string.format (expected {used}, got {len(values)})"
        )
    return text


def _formatted(verb: str, precision: str | None, value: Any) -> str:
    if verb == "s":
        return _plain(value)
    if verb == "f" and is_number(value):
        return f"{value:.{6 if precision is None else int(precision)}f}"
    if verb == "d" and type(value) is int:
        return str(value)
    if verb == "b" and type(value) in (int, bool):
        return f"{int(value):b}"
    if verb == "o" and type(value) is int:
        return f"{value:o}"
    if verb in "xX" and isinstance(value, int | str | bytes) and type(value) is not bool:
        return _hexadecimal(value, upper=verb == "X")
    if verb in "dfboxX":
        raise EvaluationError(f"error during formatting: %{verb} cannot show {type_name(value)}")
    message = f'could not parse formatting clause: unrecognized formatting clause "{verb}"'
    raise EvaluationError(message)


def _hexadecimal(value: int | str | bytes, *, upper: bool) -> str:
    if isinstance(value, int):
        text = f"{value:x}"
    else:
        text = (value.encode() if isinstance(value, str) else value).hex()
    return text.upper() if upper else text


def _plain(value: Any, *, nested: bool = False) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if nested else value
    if isinstance(value, list):
        return "[" + ", ".join(_plain(item, nested=True) for item in value) + "]"
    if isinstance(value, dict):
        pairs = sorted((_plain(key, nested=True), item) for key, item in value.items())
        return "{" + ", ".join(f"{key}:{_plain(item, nested=True)}" for key, item in pairs) + "}"
    show = _SHOWN.get(type(value))
    if show is None:
        raise EvaluationError(f"error during formatting: %s cannot show {type_name(value)}")
    return show(value)


def _double(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e21 else str(value)


_SHOWN: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "null",
    bool: lambda value: "true" if value else "false",
    int: str,
    float: _double,
    bytes: lambda value: value.decode(errors="replace"),
    timedelta: lambda value: f"{_double(value.total_seconds())}s",
    datetime: lambda value: value.isoformat().replace("+00:00", "Z"),
}


# ── named formats ────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class NamedFormat:
    name: str
    errors: Callable[[str], Sequence[str]]


def _known(name: str, message: str) -> NamedFormat:
    test = FORMATS[name]
    return NamedFormat(name, lambda text: () if test(text) else (message,))


_NAMED: dict[str, NamedFormat] = {
    "dns1123Label": NamedFormat("dns1123Label", dns1123_label_errors),
    "dns1123Subdomain": NamedFormat("dns1123Subdomain", dns1123_subdomain_errors),
    "dns1035Label": NamedFormat("dns1035Label", dns1035_label_errors),
    "qualifiedName": NamedFormat("qualifiedName", qualified_name_errors),
    "labelValue": NamedFormat("labelValue", label_value_errors),
    "uri": _known("uri", "invalid URI for request"),
    "uuid": _known("uuid", "does not match the UUID format"),
    "byte": _known("byte", "invalid base64"),
    "date": _known("date", "invalid date"),
    "datetime": _known("datetime", "invalid datetime"),
}


def _named(name: Any) -> Maybe:
    found = _NAMED.get(name) if isinstance(name, str) else None
    return Maybe(found, found is not None)


def _validate(format_: Any, text: Any) -> Maybe:
    """Return what is invalid in a text; empty if it is valid."""
    if not isinstance(format_, NamedFormat) or not isinstance(text, str):
        raise EvaluationError(NO_OVERLOAD)
    errors = list(format_.errors(text))
    return Maybe(errors or None, bool(errors))


def _constant(found: NamedFormat) -> Function:
    return lambda: found


GLOBALS: dict[tuple[str, int], Function] = {
    ("format.named", 1): _named,
    **{(f"format.{name}", 0): _constant(found) for name, found in _NAMED.items()},
}
METHODS: dict[tuple[str, int], Function] = {("format", 1): format_text, ("validate", 1): _validate}
