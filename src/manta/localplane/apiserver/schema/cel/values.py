"""The values of expressions: JSON, and how it compares, adds and divides."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any

from manta.localplane.apiserver.schema.cel.errors import NO_OVERLOAD, EvaluationError

_INT64 = 1 << 63


@dataclass(frozen=True, slots=True)
class Maybe:
    """An optional value: the result of `a.?b`."""

    value: Any
    present: bool


def type_name(value: Any) -> str:
    if value is None:
        return "null_type"
    if isinstance(value, Maybe):
        return "optional_type"
    return _TYPE_NAMES.get(type(value)) or f"kubernetes.{type(value).__name__}"


_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    timedelta: "google.protobuf.Duration",
    datetime: "google.protobuf.Timestamp",
    IPv4Address: "net.IP",
    IPv6Address: "net.IP",
    IPv4Interface: "net.CIDR",
    IPv6Interface: "net.CIDR",
}


def is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def as_list(value: Any) -> list[Any]:
    """Return the value if it is a list. Raises EvaluationError."""
    if type(value) is not list:
        raise EvaluationError(NO_OVERLOAD)
    return value


def equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal: numbers compare across types, and true is not 1."""
    if is_number(left) and is_number(right):
        return bool(left == right)
    if type(left) is not type(right):
        return False
    if type(left) is list:
        return len(left) == len(right) and all(map(equal, left, right))
    if type(left) is dict:
        return left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
    return bool(left == right)


def _comparable(left: Any, right: Any) -> bool:
    if is_number(left) and is_number(right):
        return True
    return type(left) is type(right) and isinstance(left, str | bool | timedelta | datetime | bytes)


def _compare(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(left: Any, right: Any) -> bool:
        if not _comparable(left, right):
            raise EvaluationError(NO_OVERLOAD)
        return test(left, right)

    return compare


def _add(left: Any, right: Any) -> Any:
    if is_number(left) and type(left) is type(right):
        return _fit(left + right)
    if type(left) is type(right) and isinstance(left, str | list | bytes | timedelta):
        return left + right
    if {type(left), type(right)} == {timedelta, datetime}:
        return left + right
    raise EvaluationError(NO_OVERLOAD)


def _subtract(left: Any, right: Any) -> Any:
    if is_number(left) and type(left) is type(right):
        return _fit(left - right)
    if isinstance(left, datetime) and isinstance(right, datetime | timedelta):
        return left - right
    if isinstance(left, timedelta) and isinstance(right, timedelta):
        return left - right
    raise EvaluationError(NO_OVERLOAD)


def _multiply(left: Any, right: Any) -> Any:
    if is_number(left) and type(left) is type(right):
        return _fit(left * right)
    raise EvaluationError(NO_OVERLOAD)


def _divide(left: Any, right: Any) -> Any:
    if type(left) is int and type(right) is int:
        if right == 0:
            raise EvaluationError("division by zero")
        return _fit(abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1))
    if type(left) is float and type(right) is float:
        if right == 0:
            return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)
        return left / right
    raise EvaluationError(NO_OVERLOAD)


def _modulo(left: Any, right: Any) -> Any:
    if type(left) is not int or type(right) is not int:
        raise EvaluationError(NO_OVERLOAD)
    if right == 0:
        raise EvaluationError("modulus by zero")
    return left - _divide(left, right) * right


def _fit(number: Any) -> Any:
    if type(number) is int and not -_INT64 <= number < _INT64:
        raise EvaluationError("return error for overflow")
    return number


def _contains(item: Any, container: Any) -> bool:
    if type(container) is list:
        return any(equal(item, member) for member in container)
    if type(container) is dict:
        return isinstance(item, str) and item in container
    raise EvaluationError(NO_OVERLOAD)


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": _compare(lambda left, right: left < right),
    "<=": _compare(lambda left, right: left <= right),
    ">": _compare(lambda left, right: left > right),
    ">=": _compare(lambda left, right: left >= right),
    "in": _contains,
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _modulo,
}
