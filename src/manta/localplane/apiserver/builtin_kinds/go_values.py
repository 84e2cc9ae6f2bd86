"""Scalars as Go decodes and prints them: numbers, text, times, quantities, base64."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from manta.api.quantity import Quantity, QuantityError
from manta.api.times import format_micro_time, format_time, parse_time
from manta.localplane.apiserver.schema.paths import Path


class WrongTypeError(ValueError):
    """The object cannot be decoded; the text is that of Go's decoder."""


class MapMember(str):
    """A key of a map on a path."""

    __slots__ = ()


@dataclass(slots=True)
class Reading:
    owner: str
    """The struct whose field is being read, which Go names in its errors."""
    unknown: list[str] = field(default_factory=list)

    def mismatch(self, value: Any, path: Path, wanted: str) -> WrongTypeError:
        where = ".".join(str(part) for part in _names(path))
        found = json_type(value)
        if wanted.startswith("int") and found == "number":
            found = f"number {value}"
        return WrongTypeError(
            f"json: cannot unmarshal {found} into Go struct field "
            f"{self.owner}.{where} of type {wanted}"
        )


Convert = Callable[[Any, Path, Reading], Any]


def _string(value: Any, path: Path, reading: Reading) -> Any:
    if type(value) is str:
        return value
    if value is None:
        return ""
    raise reading.mismatch(value, path, "string")


def _bool(value: Any, path: Path, reading: Reading) -> Any:
    if type(value) is bool:
        return value
    raise reading.mismatch(value, path, "bool")


def _integer(name: str, limit: int) -> Convert:
    def read(value: Any, path: Path, reading: Reading) -> Any:
        if type(value) is not int or not -limit <= value < limit:
            raise reading.mismatch(value, path, name)
        return value

    return read


def _float(value: Any, path: Path, reading: Reading) -> Any:
    if type(value) is float and value.is_integer() and abs(value) < 1e21:
        return int(value)  # as Go prints it
    if type(value) is int or type(value) is float:
        return value
    raise reading.mismatch(value, path, "float64")


def _bytes(value: Any, path: Path, reading: Reading) -> Any:
    text = _string(value, path, reading)
    try:
        decoded = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        at = re.match(r"[A-Za-z0-9+/]*", text)
        raise WrongTypeError(f"illegal base64 data at input byte {at.end() if at else 0}") from None
    canonical = base64.b64encode(decoded).decode()
    return _same_if_equal(text, canonical)


def _same_if_equal(given: Any, canonical: Any) -> Any:
    """The given value itself if it is canonical: callers compare by identity."""
    return given if given == canonical else canonical


_CANONICAL_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


def _time(value: Any, path: Path, reading: Reading) -> Any:
    if value is None or (type(value) is str and _CANONICAL_TIME.fullmatch(value)):
        return value
    return format_time(_moment(_string(value, path, reading)))


_MICRO_TIME = re.compile(r"[^.]*\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)


def _micro_time(value: Any, path: Path, reading: Reading) -> Any:
    """Go accepts exactly six digits of a fraction here."""
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


def _quantity(value: Any, path: Path, reading: Reading) -> Any:
    if type(value) is str and _PLAIN_QUANTITY.fullmatch(value):
        return value  # already canonical: a number below 1000
    if isinstance(value, bool | dict | list):
        raise reading.mismatch(value, path, "resource.Quantity")
    try:
        if type(value) is str:
            value = value.strip(" \t\r\n")
        return "0" if value is None else _same_if_equal(value, str(Quantity.parse(value)))
    except QuantityError:
        raise WrongTypeError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def _int_or_string(value: Any, path: Path, reading: Reading) -> Any:
    if type(value) is int or type(value) is str:
        return value
    raise reading.mismatch(value, path, "int32")


def _raw(value: Any, _: Path, __: Reading) -> Any:
    return value


SCALARS: Final[dict[str, Convert]] = {
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
}


def _names(path: Path) -> list[str]:
    """The field names of a path; Go names neither indexes nor keys of maps."""
    names: list[str] = []
    while path is not None:
        path, segment = path
        if not isinstance(segment, int | MapMember):
            names.append(segment)
    return names[::-1]


def json_type(value: Any) -> str:
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
