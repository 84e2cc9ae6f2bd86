"""Rules that many kinds share."""

from __future__ import annotations

import difflib
import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from manta.api.names import (
    dns1123_label_errors,
    dns1123_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)
from manta.localplane.apiserver.schema.causes import Cause, invalid, not_supported, required

Json: TypeAlias = Mapping[str, Any]
Causes: TypeAlias = Iterator[Cause]
Check: TypeAlias = Callable[[Json, Json | None], Causes]

PROTOCOLS = ("SCTP", "TCP", "UDP")
MAX_INT32 = 2**31 - 1
_PERCENT = re.compile(r"[0-9]+%")
_PORT_NAME = re.compile(r"[-a-z0-9]+")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")


def all_invalid(field: str, value: Any, errors: Iterable[str]) -> Causes:
    for error in errors:
        yield invalid(field, value, error)


def label(field: str, value: str) -> Causes:
    return all_invalid(field, value, dns1123_label_errors(value))


def subdomain(field: str, value: str) -> Causes:
    return all_invalid(field, value, dns1123_subdomain_errors(value))


def labels(field: str, values: Mapping[str, str] | None) -> Causes:
    for key, value in (values or {}).items():
        yield from all_invalid(field, key, qualified_name_errors(key))
        yield from all_invalid(field, value, label_value_errors(value))


def selector(field: str, value: Json | None) -> Causes:
    """A label selector. An empty one is valid here."""
    found = value or {}
    yield from labels(f"{field}.matchLabels", found.get("matchLabels"))
    for index, term in enumerate(found.get("matchExpressions") or []):
        path = f"{field}.matchExpressions[{index}]"
        operator, values = term.get("operator", ""), term.get("values") or []
        if operator in {"In", "NotIn"} and not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            yield required(f"{path}.values", detail)
        elif operator in {"Exists", "DoesNotExist"} and values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield Cause("FieldValueForbidden", f"Forbidden: {detail}", f"{path}.values")
        elif operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")
        yield from all_invalid(
            f"{path}.key", term.get("key", ""), qualified_name_errors(term.get("key", ""))
        )


def port_number(field: str, value: int) -> Causes:
    if not 1 <= value <= 65535:
        yield invalid(field, value, "must be between 1 and 65535, inclusive")


def port_name_errors(name: str) -> list[str]:
    errors = []
    if len(name) > 15:
        errors.append("must be no more than 15 characters")
    if not _PORT_NAME.fullmatch(name):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        errors.append("must contain at least one letter (a-z)")
    if "--" in name:
        errors.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def port_number_or_name(field: str, value: int | str) -> Causes:
    if isinstance(value, int):
        yield from port_number(field, value)
    else:
        yield from all_invalid(field, value, port_name_errors(value))


def protocol(field: str, value: str) -> Causes:
    if not value:
        yield required(field)
    elif value not in PROTOCOLS:
        yield not_supported(field, value, PROTOCOLS)


def one_of(field: str, value: str, allowed: Iterable[str]) -> Causes:
    if not value:
        yield required(field)
    elif value not in allowed:
        yield not_supported(field, value, tuple(allowed))


def not_negative(field: str, value: int | None) -> Causes:
    if value is not None and value < 0:
        yield invalid(field, value, "must be greater than or equal to 0")


def user_or_group(field: str, value: int | None) -> Causes:
    """The number of a Unix user or group."""
    if value is not None and not 0 <= value <= MAX_INT32:
        yield invalid(field, value, f"must be between 0 and {MAX_INT32}, inclusive")


def count_or_percent(field: str, value: int | str | None, *, bounded: bool = True) -> Causes:
    """A number that is not negative, or a percentage, at most 100 % if `bounded`."""
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            detail = (
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. "
                "'1%',  or '93%', regex used for validation is '[0-9]+%')"
            )
            yield invalid(field, value, detail)
        elif bounded and amount_of(value) > 100:
            yield invalid(field, value, "must not be greater than 100%")
    else:
        yield from not_negative(field, value)


def amount_of(value: int | str) -> int:
    """The number, or the percentage; 0 for other text."""
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%").lstrip("0")
    if not digits.isascii() or not digits.isdigit():
        return 0
    return int(digits) if len(digits) < 19 else MAX_INT32


def is_ip(text: Any, family: str = "") -> bool:
    """Whether the text is an IP address; `family` is IPv4 or IPv6, or empty for both."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not family or f"IPv{address.version}" == family


def immutable(field: str, new: Any, old: Any) -> Causes:
    if new != old:
        yield invalid(field, new, "field is immutable")


def data_key(field: str, key: str) -> Causes:
    path = f"{field}[{key}]"
    if len(key) > 253:
        yield invalid(path, key, "must be no more than 253 characters")
    if not _DATA_KEY.fullmatch(key):
        yield invalid(
            path,
            key,
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
            "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
            "'[-._a-zA-Z0-9]+')",
        )
    if key == ".":
        yield invalid(path, key, "must not be '.'")
    elif key.startswith(".."):
        yield invalid(path, key, "must not be '..'" if key == ".." else "must not start with '..'")


def json_diff(old: Json, new: Json) -> str:
    """A unified diff of the JSON: part of the error for an immutable spec."""
    before, after = (json.dumps(side, indent=1, sort_keys=True).splitlines() for side in (old, new))
    lines = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    return "\n".join(lines) + "\n"
