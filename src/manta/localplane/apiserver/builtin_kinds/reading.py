"""Built-in objects in the canonical form that kube-apiserver stores and prints.

kube-apiserver decodes an object into Go structs and encodes those. This module has the same result without
the structs: unknown fields are dropped, empty fields are dropped or added as Go does, quantities and times
become canonical, and a value of the wrong type is refused with the error of Go's decoder.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from manta.localplane.apiserver.builtin_kinds.go_values import (
    SCALARS,
    Convert,
    MapMember,
    Reading,
    WrongTypeError,
)
from manta.localplane.apiserver.builtin_kinds.messages import (
    Field,
    flat_fields,
    is_kind,
    is_message,
    message_of,
)
from manta.localplane.apiserver.schema.paths import Path, spell

__all__ = ["WrongTypeError", "read_object"]

_OMITTED: Final = object()
"""The field is omitted."""


def read_object(
    api_version: str, kind: str, obj: dict[str, Any], unknown: list[str] | None = None
) -> dict[str, Any]:
    """The canonical object. Paths of unknown fields are appended to `unknown`.

    Raises WrongTypeError. An object that is already canonical is returned itself.
    """
    name = message_of(api_version, kind)
    if name is None:
        return obj
    reading = Reading(kind)
    result: dict[str, Any] = _struct(name)(obj, None, reading)
    if unknown is not None:
        unknown.extend(reading.unknown)
    return result


@cache
def _struct(name: str) -> Convert:
    """A converter of one message. Its members are resolved late: some messages contain themselves."""
    fields = flat_fields(name)
    if is_kind(name):  # a kind inside another one, such as the claims of a StatefulSet
        fields += [Field("apiVersion", flags="o"), Field("kind", flags="o")]
    members = {member.name: _member(member) for member in fields}
    always = [
        (member.name, empty)
        for member in fields
        if (empty := _printed_empty(member)) is not _OMITTED
    ]
    owner = name.rpartition(".")[2]

    def read(obj: Any, path: Path, reading: Reading) -> Any:
        if type(obj) is not dict:
            raise reading.mismatch(obj, path, _go_name(name))
        result = obj
        for key, value in obj.items():
            convert = members.get(key)
            if convert is None:
                reading.unknown.append(spell((path, key)))
                kept = _OMITTED
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
    if value is _OMITTED:
        del result[key]
    else:
        result[key] = value
    return result


def _member(member: Field) -> Convert:
    convert = _converter(member)
    if member.pointer or not member.omit_empty:
        absent = _printed_empty(member)

        def read(value: Any, path: Path, reading: Reading) -> Any:
            if value is None:
                return absent() if callable(absent) else absent
            return convert(value, path, reading)

        return read
    if is_message(member.type) or member.type in _NEVER_EMPTY:
        return _struct_member(member, convert)

    def read_or_drop(value: Any, path: Path, reading: Reading) -> Any:
        if value is None:
            return _OMITTED
        kept = convert(value, path, reading)
        return kept or _OMITTED  # "", 0, false, [] and {}

    return read_or_drop


def _struct_member(member: Field, convert: Convert) -> Convert:
    """Go's omitempty does not omit empty structs; omitzero does."""

    def read(value: Any, path: Path, reading: Reading) -> Any:
        if value is None:
            empty = _printed_empty(member)
            return empty() if callable(empty) else empty
        kept = convert(value, path, reading)
        return _OMITTED if member.omit_zero and not kept else kept

    return read


_NEVER_EMPTY: Final = frozenset({"Time", "MicroTime", "Quantity", "IntOrString", "Duration", "Raw"})


def _printed_empty(member: Field) -> Any:
    """What Go prints for an unset field: a value, a factory of one, or _OMITTED."""
    if member.omit_zero or (member.pointer and member.omit_empty):
        return _OMITTED
    if member.pointer:
        return None
    if is_message(member.type):
        return lambda: _struct(member.type)({}, None, Reading(""))
    if member.type in _NEVER_EMPTY:
        return _ZERO_SPECIAL[member.type]
    if member.omit_empty:
        return _OMITTED
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
        name = f"map[string]{_go_name(member.element)}"
        return _map(_element(member.element), name, structs=is_message(member.element))
    return _element(member.type)


def _element(type_: str) -> Convert:
    if is_message(type_):
        return _late(type_)
    return _CONVERTERS[type_]


def _late(name: str) -> Convert:
    """Resolved when called: a schema contains schemas."""

    def read(value: Any, path: Path, reading: Reading) -> Any:
        return _struct(name)(value, path, reading)

    return read


def _list(element: Convert, go_name: str = "[]string") -> Convert:
    def read(value: Any, path: Path, reading: Reading) -> Any:
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


def _map(element: Convert, go_name: str, *, structs: bool = False) -> Convert:
    """Structs may have unknown fields, whose paths need the key."""

    def read(value: Any, path: Path, reading: Reading) -> Any:
        if type(value) is not dict:
            raise reading.mismatch(value, path, go_name)
        result = value
        for key, item in value.items():
            kept = element(item, (path, MapMember(key)) if structs else path, reading)
            if kept is not item:
                result = _changed(value, result, key, kept)
        return result

    return read


def _schema_or(*others: type) -> Convert:
    """A schema or a simpler value, as in many fields of JSON schemas.

    Their decoder in Go reports no unknown fields.
    """

    def read(value: Any, path: Path, reading: Reading) -> Any:
        if type(value) is dict:
            silent = Reading(reading.owner)
            return _struct("apiextensions.JSONSchemaProps")(value, path, silent)
        if type(value) is list:
            return [read(item, (path, index), reading) for index, item in enumerate(value)]
        if type(value) in others:
            return value
        raise reading.mismatch(value, path, "JSONSchemaProps")

    return read


_CONVERTERS: Final[dict[str, Convert]] = {
    **SCALARS,
    "Strings": _list(SCALARS["string"]),
    "SchemaOrBool": _schema_or(bool),
    "SchemaOrArray": _schema_or(),
    "SchemaOrStrings": _schema_or(str),
}


def _go_name(type_: str) -> str:
    if not is_message(type_):
        return {"bytes": "[]uint8", "Quantity": "resource.Quantity"}.get(type_, type_)
    package, _, name = type_.rpartition(".")
    version = package.rpartition("_")[2] if "_" in package else "v1"
    return f"{version}.{name}"
