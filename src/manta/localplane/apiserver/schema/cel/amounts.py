"""`quantity()` of Kubernetes' CEL, and sets of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from manta.api.quantity import Quantity
from manta.localplane.apiserver.schema.cel.errors import NO_OVERLOAD, EvaluationError
from manta.localplane.apiserver.schema.cel.values import as_list, equal

Function: TypeAlias = Callable[..., Any]
_NANO = 10**9
_INT64 = 1 << 63
_MAX_COMPARISONS = 200_000


def _quantity(text: Any) -> Quantity:
    found = _parse(text)
    if found is None:
        raise EvaluationError(f"quantity parse error during conversion from string {text!r}")
    return found


def _parse(text: Any) -> Quantity | None:
    if not isinstance(text, str):
        raise EvaluationError(NO_OVERLOAD)
    return Quantity.parse_or_none(text)


def _amount(value: Any) -> Quantity:
    if not isinstance(value, Quantity):
        raise EvaluationError(NO_OVERLOAD)
    return value


def _operand(value: Any) -> Quantity:
    """Return an operand of a sum, which may also be an integer."""
    return Quantity(value * _NANO) if type(value) is int else _amount(value)


def _is_integer(value: Any) -> bool:
    whole, rest = divmod(_amount(value).nano, _NANO)
    return rest == 0 and -_INT64 <= whole < _INT64


def _as_integer(value: Any) -> int:
    if not _is_integer(value):
        raise EvaluationError("cannot convert value to integer")
    return _amount(value).nano // _NANO


def _compared(left: Any, right: Any) -> int:
    one, other = _amount(left).nano, _amount(right).nano
    return (one > other) - (one < other)


def _pair(left: Any, right: Any) -> tuple[list[Any], list[Any]]:
    """Return two lists to compare element by element. Raises EvaluationError if they are too long."""
    one, other = as_list(left), as_list(right)
    if len(one) * len(other) > _MAX_COMPARISONS:
        raise EvaluationError("operation cancelled: actual cost limit exceeded")
    return one, other


def _contains(outer: Any, inner: Any) -> bool:
    items, wanted = _pair(outer, inner)
    return all(any(equal(one, item) for item in items) for one in wanted)


def _intersects(left: Any, right: Any) -> bool:
    items, others = _pair(left, right)
    return any(equal(one, other) for one in items for other in others)


GLOBALS: dict[tuple[str, int], Function] = {
    ("quantity", 1): _quantity,
    ("sign", 1): lambda value: (_amount(value).nano > 0) - (_amount(value).nano < 0),
    ("isQuantity", 1): lambda text: _parse(text) is not None,
    ("sets.contains", 2): _contains,
    ("sets.equivalent", 2): lambda left, right: _contains(left, right) and _contains(right, left),
    ("sets.intersects", 2): _intersects,
}
METHODS: dict[tuple[str, int], Function] = {
    ("isGreaterThan", 1): lambda left, right: _compared(left, right) > 0,
    ("isLessThan", 1): lambda left, right: _compared(left, right) < 0,
    ("compareTo", 1): _compared,
    ("add", 1): lambda left, right: _amount(left) + _operand(right),
    ("sub", 1): lambda left, right: _amount(left) - _operand(right),
    ("isInteger", 0): _is_integer,
    ("asInteger", 0): _as_integer,
    ("asApproximateFloat", 0): lambda value: _amount(value).nano / _NANO,
}
