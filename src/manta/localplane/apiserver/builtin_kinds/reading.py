"""A built-in object as the real server would hold and print it.

The real server decodes an object into Go structs and prints those. This gives the same result
without the structs: unknown fields go, empty ones go or come as Go prints them, quantities and
times become canonical, and a value of the wrong type is refused in Go's words.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Final

from manta.api.quantity import Quantity, QuantityError
from manta.api.times import format_micro_time, format_time, parse_time
from manta.localplane.apiserver.builtin_kinds.messages import (
    Field,
    flat_fields,
    is_kind,
    is_message,
    message_of,
)
from manta.localplane.apiserver.schema.paths import Path, spell


class WrongTypeError(ValueError):
    """The object cannot be decoded; the text is what Go's decoder says."""


@dataclass(slots=True)
class _Reading:
    owner: str
    """The struct whose field is being read; Go names it in its messages."""
    unknown: list[str] = field(default_factory=list)

    def mismatch(self, value: Any, path: Path, wanted: str) -> WrongTypeError:
        where = ".".join(str(part) for part in _names(path))
        found = _json_name(value)
        if wanted.startswith("int") and found == "number":
            found = f"number {value}"
        return WrongTypeError(
            f"json: cannot unmarshal {found} into Go struct field "
            f"{self.owner}.{where} of type {wanted}"
        )


Convert = Callable[[Any, Path, _Reading], Any]

_GONE: Final = object()
"""Go leaves this field out."""


def read_object(
    api_version: str, kind: str, obj: dict[str, Any], unknown: list[str] | None = None
) -> dict[str, Any]:
    """The object as the server holds it. Paths of unknown fields are appended to `unknown`.

    Raises WrongTypeError. An object that is already as it should be is returned as it is.
    """
    name = message_of(api_version, kind)
    if name is None:
        return obj
    reading = _Reading(kind)
    result: dict[str, Any] = _struct(name)(obj, None, reading)
    if unknown is not None:
        unknown.extend(reading.unknown)
    return result


@cache
def _struct(name: str) -> Convert:
    """Reads one message. Members of messages are looked up late: some contain themselves."""
    fields = flat_fields(name)
    if is_kind(name):  # some kinds contain others, such as the claims of a StatefulSet
        fields += [Field("apiVersion", flags="o"), Field("kind", flags="o")]
    members = {member.name: _member(member) for member in fields}
    always = [
        (member.name, empty) for member in fields if (empty := _printed_empty(member)) is not _GONE
    ]
    owner = name.rpartition(".")[2]

    def read(obj: Any, path: Path, reading: _Reading) -> Any:
        if type(obj) is not dict:
            raise reading.mismatch(obj, path, _go_name(name))
        result = obj
        for key, value in obj.items():
            convert = members.get(key)
            if convert is None:
                reading.unknown.append(spell((path, key)))
                kept = _GONE
            else:
                reading.owner = owner
                kept = convert(value, (path, key), reading)
            if kept is not value:
                result = _changed(obj, result, key, kept)
        for key, empty in always:
            if key not in result:
                result = _changed(obj, result, key, empty() if callable(empty) else empty)
        return result

    return read


def _changed(obj: dict[str, Any], result: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    if result is obj:
        result = dict(obj)
    if value is _GONE:
        del result[key]
    else:
        result[key] = value
    return result


def _member(member: Field) -> Convert:
    convert = _converter(member)
    if member.pointer or not member.omit_empty:
        absent = _printed_empty(member)

        def read(value: Any, path: Path, reading: _Reading) -> Any:
            if value is None:
                return absent() if callable(absent) else absent
            return convert(value, path, reading)

        return read
    if is_message(member.type) or member.type in _NEVER_EMPTY:
        return _struct_member(member, convert)

    def read_or_drop(value: Any, path: Path, reading: _Reading) -> Any:
        if value is None:
            return _GONE
        kept = convert(value, path, reading)
        return kept or _GONE  # "", 0, false, [] and {}

    return read_or_drop


def _struct_member(member: Field, convert: Convert) -> Convert:
    """Go's omitempty does not know empty structs; omitzero does."""

    def read(value: Any, path: Path, reading: _Reading) -> Any:
        if value is None:
            empty = _printed_empty(member)
            return empty() if callable(empty) else empty
        kept = convert(value, path, reading)
        return _GONE if member.omit_zero and not kept else kept

    return read


_NEVER_EMPTY: Final = frozenset({"Time", "MicroTime", "Quantity", "IntOrString", "Duration", "Raw"})


def _printed_empty(member: Field) -> Any:
    """What Go prints for a field that nobody set: a value, a maker of one, or nothing."""
    if member.omit_zero or (member.pointer and member.omit_empty):
        return _GONE
    if member.pointer:
        return None
    if is_message(member.type):
        return lambda: _struct(member.type)({}, None, _Reading(""))
    if member.type in _NEVER_EMPTY:
        return _ZERO_SPECIAL[member.type]
    if member.omit_empty:
        return _GONE
    return _ZERO_SCALAR.get(member.type)


_ZERO_SPECIAL: Final = {
    "Time": None,
    "MicroTime": None,
    "Quantity": "0",
    "IntOrString": 0,
    "Duration": "0s",
    "Raw": None,
}
_ZERO_SCALAR: Final = {"string": "", "bool": False, "int32": 0, "int64": 0, "float": 0}


def _converter(member: Field) -> Convert:
    if member.repeated:
        return _list(_element(member.element), f"[]{_go_name(member.element)}")
    if member.keyed:
        return _map(_element(member.element), f"map[string]{_go_name(member.element)}")
    return _element(member.type)


def _element(type_: str) -> Convert:
    if is_message(type_):
        return _late(type_)
    return _CONVERTERS[type_]


def _late(name: str) -> Convert:
    """Looked up when called: a schema contains schemas."""

    def read(value: Any, path: Path, reading: _Reading) -> Any:
        return _struct(name)(value, path, reading)

    return read


def _list(element: Convert, go_name: str = "[]string") -> Convert:
    def read(value: Any, path: Path, reading: _Reading) -> Any:
        if type(value) is not list:
            raise reading.mismatch(value, path, go_name)
        result = value
        for index, item in enumerate(value):
            kept = element(item, (path, index), reading)
            if kept is not item:
                result = list(value) if result is value else result
                result[index] = kept
        return result

    return read


def _map(element: Convert, go_name: str) -> Convert:
    def read(value: Any, path: Path, reading: _Reading) -> Any:
        if type(value) is not dict:
            raise reading.mismatch(value, path, go_name)
        result = value
        for key, item in value.items():
            kept = element(item, path, reading)
            if kept is not item:
                result = _changed(value, result, key, kept)
        return result

    return read


# ── scalars and special types ────────────────────────────────────────────────────────────
def _string(value: Any, path: Path, reading: _Reading) -> Any:
    if type(value) is str:
        return value
    if value is None:
        return ""
    raise reading.mismatch(value, path, "string")


def _bool(value: Any, path: Path, reading: _Reading) -> Any:
    if type(value) is bool:
        return value
    raise reading.mismatch(value, path, "bool")


def _integer(name: str, limit: int) -> Convert:
    def read(value: Any, path: Path, reading: _Reading) -> Any:
        if type(value) is not int or not -limit <= value < limit:
            raise reading.mismatch(value, path, name)
        return value

    return read


def _float(value: Any, path: Path, reading: _Reading) -> Any:
    if type(value) is float and value.is_integer() and abs(value) < 1e21:
        return int(value)  # as Go prints it
    if type(value) is int or type(value) is float:
        return value
    raise reading.mismatch(value, path, "float64")


def _bytes(value: Any, path: Path, reading: _Reading) -> Any:
    text = _string(value, path, reading)
    try:
        decoded = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        at = re.match(r"[A-Za-z0-9+/]*", text)
        raise WrongTypeError(f"illegal base64 data at input byte {at.end() if at else 0}") from None
    canonical = base64.b64encode(decoded).decode()
    return _same_if_equal(text, canonical)


def _same_if_equal(given: Any, canonical: Any) -> Any:
    """Nothing changed: say so by identity."""
    return given if given == canonical else canonical


_CANONICAL_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


def _time(value: Any, path: Path, reading: _Reading) -> Any:
    if value is None or (type(value) is str and _CANONICAL_TIME.fullmatch(value)):
        return value
    return format_time(_moment(_string(value, path, reading)))


_MICRO_TIME = re.compile(r"[^.]*\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)


def _micro_time(value: Any, path: Path, reading: _Reading) -> Any:
    """Exactly six digits of fraction: Go takes nothing else here."""
    if value is None:
        return None
    text = _string(value, path, reading)
    layout = "2006-01-02T15:04:05.000000Z07:00"
    moment = _moment(text, layout)
    if not _MICRO_TIME.fullmatch(text):
        rest = text[19:]
        raise WrongTypeError(
            f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as ".000000"'
        )
    return _same_if_equal(text, format_micro_time(moment))


def _moment(text: str, layout: str = "2006-01-02T15:04:05Z07:00") -> datetime:
    try:
        return parse_time(text)
    except ValueError:
        raise WrongTypeError(
            f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"'
        ) from None


_PLAIN_QUANTITY = re.compile(r"[1-9]\d{0,2}(m|k|M|G|Ki|Mi|Gi|Ti)?", re.ASCII)


def _quantity(value: Any, path: Path, reading: _Reading) -> Any:
    if type(value) is str and _PLAIN_QUANTITY.fullmatch(value):
        return value  # already canonical: a short number is divisible by no thousand
    if isinstance(value, bool | dict | list):
        raise reading.mismatch(value, path, "resource.Quantity")
    try:
        return "0" if value is None else _same_if_equal(value, str(Quantity.parse(value)))
    except QuantityError:
        raise WrongTypeError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def _int_or_string(value: Any, path: Path, reading: _Reading) -> Any:
    if type(value) is int or type(value) is str:
        return value
    raise reading.mismatch(value, path, "int32")


def _raw(value: Any, _: Path, __: _Reading) -> Any:
    return value


def _schema_or(*others: type) -> Convert:
    """A schema, or something simpler: JSON schemas are full of these."""

    def read(value: Any, path: Path, reading: _Reading) -> Any:
        if type(value) is dict:
            return _struct("apiextensions.JSONSchemaProps")(value, path, reading)
        if type(value) is list:
            return [read(item, (path, index), reading) for index, item in enumerate(value)]
        if type(value) in others:
            return value
        raise reading.mismatch(value, path, "JSONSchemaProps")

    return read


_CONVERTERS: Final[dict[str, Convert]] = {
    "string": _string,
    "bool": _bool,
    "int32": _integer("int32", 1 << 31),
    "int64": _integer("int64", 1 << 63),
    "float": _float,
    "bytes": _bytes,
    "Time": _time,
    "MicroTime": _micro_time,
    "Duration": _string,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Raw": _raw,
    "Strings": _list(_string),
    "SchemaOrBool": _schema_or(bool),
    "SchemaOrArray": _schema_or(),
    "SchemaOrStrings": _schema_or(str),
}


# ── words ────────────────────────────────────────────────────────────────────────────────
def _names(path: Path) -> list[str]:
    """The names on a path; Go does not mention indexes."""
    names: list[str] = []
    while path is not None:
        path, segment = path
        if not isinstance(segment, int):
            names.append(segment)
    return names[::-1]


def _go_name(type_: str) -> str:
    if not is_message(type_):
        return {"bytes": "[]uint8", "Quantity": "resource.Quantity"}.get(type_, type_)
    package, _, name = type_.rpartition(".")
    version = package.rpartition("_")[2] if "_" in package else "v1"
    return f"{version}.{name}"


def _json_name(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case None:
            return "null"
        case _:
            return "object"
