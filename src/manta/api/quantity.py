"""Kubernetes quantities (`500m`, `1.5Gi`, `1e3`): exact integer arithmetic, canonical print.

A value is a whole number of nano-units with the suffix family in which it was written, as in the API server:
`1024Mi` is printed as `1Gi`, `1000m` as `1`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import total_ordering
from typing import Any, Final

_NANO: Final = 10**9
_CAP: Final = (2**63 - 1) * _NANO
"""Kubernetes caps binary amounts, but not decimal ones, at the largest 64-bit number."""

_TEXT = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?", re.ASCII)
_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIX: Final = ("", *_BINARY)


class Family(StrEnum):
    """How a quantity is printed."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


class QuantityError(ValueError):
    """The text is not a quantity; the message quotes it."""


@total_ordering
class Quantity:
    """An immutable amount. Equality and order ignore the suffix family."""

    __slots__ = ("family", "nano")
    nano: Final[int]
    family: Final[Family]

    def __init__(self, nano: int, family: Family = Family.DECIMAL) -> None:
        self.nano = nano
        self.family = family

    @classmethod
    def parse(cls, text: str | float | Quantity) -> Quantity:
        """The quantity of a JSON value: a string, an integer or a float. Raises QuantityError."""
        if isinstance(text, Quantity):
            return text
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            raise QuantityError(f"{text!r} is not a quantity such as 500m, 2 or 1.5Gi")
        return _parse(str(text))

    @classmethod
    def parse_or_none(cls, text: Any) -> Quantity | None:
        """Like `parse`, but None for a value that is no quantity."""
        try:
            return cls.parse(text)
        except QuantityError:
            return None

    def value(self) -> int:
        """Whole units; a fraction is rounded away from zero, as `Quantity.Value` does."""
        return _divide_up(self.nano, _NANO)

    def milli(self) -> int:
        """Thousandths; a smaller fraction is rounded away from zero."""
        return _divide_up(self.nano, 10**6)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self._family_with(other))

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self._family_with(other))

    def __mul__(self, times: int) -> Quantity:
        return Quantity(self.nano * times, self.family)

    __rmul__ = __mul__

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.family)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __str__(self) -> str:
        """The canonical form: the largest suffix that leaves a whole number."""
        if self.nano == 0:
            return "0"
        if self.family is Family.BINARY and self._prints_as_binary():
            return _print_binary(self.nano // _NANO)
        return _print_decimal(self.nano, exponent_form=self.family is Family.EXPONENT)

    def _prints_as_binary(self) -> bool:
        """Small and fractional amounts are printed in the decimal family, without loss."""
        return abs(self.nano) >= 1024 * _NANO and self.nano % _NANO == 0

    def _family_with(self, other: Quantity) -> Family:
        """The suffix family of a sum: that of the first summand that is not zero."""
        return other.family if self.nano == 0 else self.family


ZERO: Final = Quantity(0)
_LONGEST: Final = 300
"""Characters. Python refuses to parse numbers with thousands of digits."""


def _parse(text: str) -> Quantity:
    if len(text) > _LONGEST:
        raise QuantityError(f"{text[:40]!r}… is too long for a quantity: {_LONGEST} characters")
    match = _TEXT.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise QuantityError(f"{text!r} is not a quantity such as 500m, 2 or 1.5Gi")
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4] or ""
    family, base, exponent = _suffix(suffix)
    digits = int(whole + fraction)
    if digits == 0:
        return Quantity(0, family)
    nano = _scale(digits, base, exponent, 9 - len(fraction))
    if family is Family.BINARY:
        nano = min(nano, _CAP)
        family = Family.DECIMAL if nano < _NANO else family
    return Quantity(-nano if sign == "-" else nano, family)


def _suffix(suffix: str) -> tuple[Family, int, int]:
    if suffix in _DECIMAL:
        return Family.DECIMAL, 10, _DECIMAL[suffix]
    if suffix in _BINARY:
        return Family.BINARY, 2, _BINARY[suffix]
    exponent = int(suffix[1:])
    if abs(exponent) > 1000:
        raise QuantityError(f"the exponent of quantity {suffix!r} is out of range")
    return Family.EXPONENT, 10, exponent


def _scale(digits: int, base: int, exponent: int, ten: int) -> int:
    """digits * base^exponent * 10^ten, rounded up, so that a small amount is not zero."""
    numerator, denominator = digits, 1
    for root, power in ((base, exponent), (10, ten)):
        if power >= 0:
            numerator *= root**power
        else:
            denominator *= root**-power
    return -(-numerator // denominator)


def _print_decimal(nano: int, *, exponent_form: bool) -> str:
    exponent = -9
    while nano % 1000 == 0 and (exponent_form or exponent < 18):
        nano //= 1000
        exponent += 3
    if exponent_form:
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_DECIMAL_SUFFIX[exponent]}"


def _print_binary(value: int) -> str:
    steps = 0
    while value % 1024 == 0 and steps < len(_BINARY_SUFFIX) - 1:
        value //= 1024
        steps += 1
    return f"{value}{_BINARY_SUFFIX[steps]}"


def _divide_up(number: int, by: int) -> int:
    return -(-number // by) if number >= 0 else number // by
