"""The values of YAML scalars, by the rules of sigs.k8s.io/yaml v1.6 (go-yaml v2), not PyYAML's.

`y` and `on` are booleans, `1e3` and `0o14` are numbers, `22:22` and dates are text.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from decimal import Decimal
from typing import Any, Final

from manta.api.documents.limits import DocumentError

_TAG: Final = "tag:yaml.org,2002:"
_TYPES: Final = frozenset(
    f"{_TAG}{name}" for name in ("str", "bool", "int", "float", "null", "timestamp")
)
WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(
        ["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True
    ),
    **dict.fromkeys(
        ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False
    ),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], float("nan")),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], float("inf")),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], float("-inf")),
}
_NUMERIC_START: Final = frozenset("+-.0123456789")
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|0[bB]([01]+)|([1-9][0-9]*|0))")
_SIGNED_BINARY = re.compile(r"0b[-+][01]{1,63}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ][0-9:.]+(?:Z|[-+][0-9:]+)?)?")
_INT64, _UINT64 = 1 << 63, 1 << 64
_MISSING: Final = object()


def plain(text: str) -> Any:
    """The value of a scalar without quotes or tag; NaN and infinity are left to the caller."""
    word = WORDS.get(text, _MISSING)
    if word is not _MISSING:
        return word
    return _number(text) if text[0] in _NUMERIC_START else text


def tagged(tag: str, text: str) -> Any:
    """The value of a scalar with an explicit tag; the text for an unknown tag. Raises DocumentError."""
    if tag == f"{_TAG}binary":
        return _binary(text)
    if tag not in _TYPES or tag == f"{_TAG}str":
        return text
    kind, value = tag.removeprefix(_TAG), plain(text)
    if kind == "timestamp" and _TIMESTAMP.fullmatch(text):
        return text
    if kind == "float" and type(value) is int and value < _INT64:
        return float(value)
    if kind != _kind(value):
        raise DocumentError(f"cannot decode !!{_kind(value)} `{text:.40}` as a !!{kind}")
    return value


def key(value: Any) -> str:
    """A map key as text, as JSON requires. Raises DocumentError."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() if value < _INT64:
            return str(value)
        case float():
            return _float_key(value)
        case _:
            shown = "null" if value is None else f"{value!r:.40}"
            raise DocumentError(f"{shown} cannot be a map key: use text, a number or a boolean")


def as_json(value: Any) -> Any:
    """A scalar after a conversion to JSON: `1e3` is an integer. Raises DocumentError for infinity and NaN."""
    if type(value) is float:
        if not math.isfinite(value):
            raise DocumentError(f"JSON has no number {value}: put it in quotes if it is text")
        if value.is_integer() and abs(value) <= _INT64:
            whole = int(Decimal(repr(value)))  # the digits that JSON would have
            return whole if -_INT64 <= whole < _INT64 else value
    elif type(value) is int and not -_INT64 <= value < _INT64:
        return float(value)
    return value


def _kind(value: Any) -> str:
    names = {str: "str", bool: "bool", int: "int", float: "float"}
    return names.get(type(value), "null")


def _number(text: str) -> Any:
    digits = text.replace("_", "")
    found = _INTEGER.fullmatch(digits)
    whole = _integer(found) if found else None
    if whole is not None:
        return whole
    if _SIGNED_BINARY.fullmatch(digits):  # go-yaml also reads `0b-101`
        sign, ones = digits[2], digits[3:]
        return -int(ones, 2) if sign == "-" else int(ones, 2)
    # Go takes an underscore only between digits, and go-yaml keeps those of a text that begins with a dot.
    if _FLOAT.fullmatch(digits) and text[:2] != "._":
        value = float(digits)
        if math.isfinite(value):
            return value
    return text


def _integer(found: re.Match[str]) -> int | None:
    """The integer; None if it does not fit: 64 bits, unsigned only without a sign."""
    sign, hexadecimal, octal, binary, decimal = found.groups()
    if decimal is not None:
        if len(decimal) > 20:
            return None
        value = int(decimal)
    elif hexadecimal is not None:
        value = int(hexadecimal, 16)
    else:
        value = int(octal, 8) if octal is not None else int(binary, 2)
    if sign == "-":
        return -value if value <= _INT64 else None
    return value if value < (_INT64 if sign else _UINT64) else None


def _binary(text: str) -> str:
    try:
        return base64.b64decode(re.sub(r"[\r\n]", "", text), validate=True).decode(errors="replace")
    except binascii.Error:
        raise DocumentError("a !!binary value is not valid base64") from None


def _float_key(value: float) -> str:
    """A float key as sigs.k8s.io/yaml writes it: a float32 printed with Go's `%g`."""
    if math.isnan(value):
        return ".nan"
    if abs(value) > 3.4028235677973366e38:
        return ".inf" if value > 0 else "-.inf"
    narrow = _float32(value)
    digits = next(d for d in range(1, 18) if _float32(float(f"{narrow:.{d - 1}e}")) == narrow)
    mantissa, exponent = f"{narrow:.{digits - 1}e}".split("e")
    if -4 <= int(exponent) < 6:
        return f"{narrow:.{max(digits - 1 - int(exponent), 0)}f}"
    return f"{mantissa}e{int(exponent):+03d}"


def _float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])
