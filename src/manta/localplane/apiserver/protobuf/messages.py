"""Decodes protobuf messages to JSON, by the table of the built-in kinds."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from manta.api.documents import limits
from manta.api.documents.reader import read_json
from manta.api.durations import format_nanoseconds
from manta.api.times import format_micro_time, format_time
from manta.localplane.apiserver.builtin_kinds.messages import Field, is_message, message
from manta.localplane.apiserver.protobuf.wire import (
    ProtobufError,
    packed_numbers,
    read_fields,
    signed,
)

Raw = int | float | bytes
Decode = Callable[[Raw], Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEMA: Final = "apiextensions.JSONSchemaProps"


def decode_message(name: str, data: bytes) -> dict[str, Any]:
    """Return all fields of a message, zeros too; `read_object` drops those that Go omits."""
    fields = _fields(name)
    result: dict[str, Any] = {}
    for number, raw in read_fields(data):
        known = fields.get(number)
        if known is not None:  # ignore unknown fields of newer clients
            _store(result, known, raw)
    return result


@cache
def _fields(name: str) -> dict[int, tuple[Field, Decode]]:
    return {
        field.number: (field, _decoder(field.element))
        for field in message(name).fields
        if field.number
    }


def _store(result: dict[str, Any], known: tuple[Field, Decode], raw: Raw) -> None:
    field, decode = known
    if field.inline:
        result.update(decode(raw))
    elif field.keyed:
        key, value = _entry(raw, decode, field.element)
        result.setdefault(field.name, {})[key] = value
    elif not field.repeated:
        result[field.name] = decode(raw)
    elif field.element in {"int32", "int64"} and isinstance(raw, bytes):
        result.setdefault(field.name, []).extend(packed_numbers(raw))
    else:
        result.setdefault(field.name, []).append(decode(raw))


def _entry(raw: Raw, decode: Decode, type_: str) -> tuple[str, Any]:
    key, value = "", _EMPTY.get(type_)
    for number, part in read_fields(_bytes(raw)):
        if number == 1:
            key = _text(part)
        elif number == 2:
            value = decode(part)
    if value is None and is_message(type_):
        value = {}
    return key, value


_EMPTY: Final[dict[str, Any]] = {
    "string": "",
    "bytes": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "Quantity": "0",
    "Strings": [],
}


def _decoder(type_: str) -> Decode:
    if is_message(type_):
        return lambda raw: decode_message(type_, _bytes(raw))
    return _DECODERS[type_]


# ── scalars ──────────────────────────────────────────────────────────────────────────────
def _bytes(raw: Raw) -> bytes:
    if not isinstance(raw, bytes):
        raise ProtobufError("wrong wire type: expected bytes")
    return raw


def _text(raw: Raw) -> str:
    try:
        return _bytes(raw).decode()
    except UnicodeDecodeError:
        raise ProtobufError("invalid UTF-8 in a string") from None


def _number(raw: Raw) -> int:
    if not isinstance(raw, int):
        raise ProtobufError("wrong wire type: expected a number")
    return signed(raw)


def _float(raw: Raw) -> float:
    if not isinstance(raw, float):
        raise ProtobufError("wrong wire type: expected a float")
    return int(raw) if raw.is_integer() and abs(raw) < 1e21 else raw


def _base64(raw: Raw) -> str:
    return base64.b64encode(_bytes(raw)).decode()


# ── types with a JSON of their own ───────────────────────────────────────────────────────
def _moment(raw: Raw) -> datetime | None:
    """Return the time; None for an empty message, the zero time."""
    parts = dict(read_fields(_bytes(raw)))
    if not parts:
        return None
    seconds, nanos = _number(parts.get(1, 0)), _number(parts.get(2, 0))
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise ProtobufError("time out of range") from None


def _time(raw: Raw) -> str | None:
    moment = _moment(raw)
    return None if moment is None else format_time(moment)


def _micro_time(raw: Raw) -> str | None:
    moment = _moment(raw)
    return None if moment is None else format_micro_time(moment)


def _duration(raw: Raw) -> str:
    return format_nanoseconds(_number(dict(read_fields(_bytes(raw))).get(1, 0)))


def _quantity(raw: Raw) -> str:
    return _text(dict(read_fields(_bytes(raw))).get(1, b"0"))


def _int_or_string(raw: Raw) -> int | str:
    parts = dict(read_fields(_bytes(raw)))
    if parts.get(1, 0) == 1:
        return _text(parts.get(3, b""))
    return _number(parts.get(2, 0))


def _raw_json(raw: Raw) -> Any:
    body = _bytes(dict(read_fields(_bytes(raw))).get(1, b""))
    try:
        return read_json(body, limits.REQUEST) if body else None
    except limits.DocumentError:
        raise ProtobufError("invalid JSON inside a message") from None


def _strings(raw: Raw) -> list[str]:
    return [_text(part) for number, part in read_fields(_bytes(raw)) if number == 1]


def _schema(raw: Raw) -> dict[str, Any]:
    return decode_message(_SCHEMA, _bytes(raw))


def _schema_or_bool(raw: Raw) -> Any:
    parts = dict(read_fields(_bytes(raw)))
    return _schema(parts[2]) if 2 in parts else bool(parts.get(1, 0))


def _schema_or_list(decode: Decode) -> Decode:
    def read(raw: Raw) -> Any:
        parts = list(read_fields(_bytes(raw)))
        single = next((part for number, part in parts if number == 1), None)
        if single is not None:
            return _schema(single)
        return [decode(part) for number, part in parts if number == 2]

    return read


_DECODERS: Final[dict[str, Decode]] = {
    "string": _text,
    "bytes": _base64,
    "bool": lambda raw: bool(_number(raw)),
    "int32": _number,
    "int64": _number,
    "float": _float,
    "Time": _time,
    "MicroTime": _micro_time,
    "Duration": _duration,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Raw": _raw_json,
    "Strings": _strings,
    "SchemaOrBool": _schema_or_bool,
    "SchemaOrArray": _schema_or_list(_schema),
    "SchemaOrStrings": _schema_or_list(_text),
}
