"""Numbers in text that users write never raise (R7)."""

from __future__ import annotations

import pytest

from manta.api.durations import DurationError, parse_duration
from manta.api.numbers import parse_count, parse_int32
from manta.api.quantity import Quantity, QuantityError
from manta.rules.traits import parse_ray_version


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8080", 8080),
        ("+1", 1),
        ("-1", -1),
        ("007", 7),
        ("2147483647", 2147483647),
        ("2147483648", None),
        ("", None),
        ("8 0", None),
        ("1_000", None),
        ("٣", None),
        ("²", None),
        ("$PORT", None),
        ("9" * 5000, None),
    ],
)
def test_a_number_is_read_as_go_reads_it(text: str, value: int | None) -> None:
    assert parse_int32(text) == value


def test_a_count_is_never_negative() -> None:
    assert parse_count("-1") is None
    assert parse_count("3") == 3


def test_thousands_of_digits_are_an_error_with_a_name_or_a_default() -> None:
    with pytest.raises(QuantityError):
        Quantity.parse("9" * 5000)
    with pytest.raises(DurationError):
        parse_duration("9" * 5000 + "s")
    assert parse_ray_version("9" * 5000) == (999999999, 0, 0)
