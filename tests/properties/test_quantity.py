"""Quantities: what must hold for every amount, with the official client as oracle."""

from __future__ import annotations

from decimal import Decimal, localcontext

from hypothesis import assume, given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from manta.api.quantity import Family, Quantity

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi"]
NANO = Decimal(10) ** -9
LARGEST = (2**63 - 1) * 10**9
"""Kubernetes caps binary amounts here; the Python client does not."""


@st.composite
def quantity_texts(draw: st.DrawFn) -> str:
    sign = draw(st.sampled_from(["", "-", "+"]))
    whole = draw(st.integers(0, 10**9))
    fraction = draw(st.one_of(st.just(""), st.from_regex(r"\.[0-9]{1,6}", fullmatch=True)))
    return f"{sign}{whole}{fraction}{draw(st.sampled_from(SUFFIXES))}"


quantities = st.builds(Quantity, st.integers(-(10**24), 10**24), st.sampled_from(Family))


@given(quantity_texts())
def test_the_amount_is_the_official_clients_rounded_up_to_nano(text: str) -> None:
    with localcontext() as context:
        context.prec = 60
        official = parse_quantity(text.removeprefix("+"))
        nano = official / NANO
        expected = int(nano.to_integral_value("ROUND_UP"))
    if text.endswith("i"):
        expected = max(min(expected, LARGEST), -LARGEST)
    assert Quantity.parse(text).nano == expected


@given(quantities)
def test_what_is_printed_reads_back_as_the_same_amount(quantity: Quantity) -> None:
    assume(quantity.family is not Family.BINARY or abs(quantity.nano) < 2**63 * 10**9)
    assert Quantity.parse(str(quantity)) == quantity


@given(quantities)
def test_printing_is_stable(quantity: Quantity) -> None:
    assume(quantity.family is not Family.BINARY or abs(quantity.nano) < 2**63 * 10**9)
    once = str(quantity)
    again = str(Quantity.parse(once))
    # A binary amount that no binary suffix divides is printed bare, and read as a decimal one: as
    # in Kubernetes, where 125000 of the binary family is "125000" once and "125k" ever after.
    printed_bare = quantity.family is Family.BINARY and once.lstrip("-").isdecimal()
    assert again == once or printed_bare
    assert str(Quantity.parse(again)) == again


@given(quantities, quantities, quantities)
def test_addition_is_exact_and_order_does_not_matter(a: Quantity, b: Quantity, c: Quantity) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + b - b == a
    assert a + a + a == a * 3


@given(quantities, quantities)
def test_order_follows_the_amount(a: Quantity, b: Quantity) -> None:
    assert (a < b) is (a.nano < b.nano)
    assert (a <= b) is not (a > b)


@given(quantities)
def test_whole_and_milli_values_are_rounded_away_from_zero(quantity: Quantity) -> None:
    for value, unit in ((quantity.value(), 10**9), (quantity.milli(), 10**6)):
        assert abs(value) * unit >= abs(quantity.nano)
        assert abs(value) * unit - abs(quantity.nano) < unit
        assert value * quantity.nano >= 0
