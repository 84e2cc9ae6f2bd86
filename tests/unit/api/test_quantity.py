"""Quantities, held against vectors made with the real Kubernetes library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from manta.api.quantity import ZERO, Family, Quantity, QuantityError

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "quantities.json").read_text()
)
LARGEST = 2**63 - 1
LENIENT = {"e3", ".", "-", "+", "m", "Ki"}
"""Texts without a digit: Kubernetes reads them as zero, which helps no one."""
OVERFLOWS = {"1000E"}
"""Kubernetes prints this as `1`."""


@pytest.mark.parametrize(
    ("text", "canonical", "value", "milli"),
    [one for one in VECTORS["valid"] if one[0] not in LENIENT | OVERFLOWS],
)
def test_a_quantity_reads_and_prints_as_kubernetes_does(
    text: str, canonical: str, value: int, milli: int
) -> None:
    quantity = Quantity.parse(text)
    assert str(quantity) == canonical
    assert str(Quantity.parse(canonical)) == canonical
    if abs(quantity.value()) <= LARGEST:
        assert quantity.value() == value
    if abs(quantity.milli()) <= LARGEST:
        assert quantity.milli() == milli


@pytest.mark.parametrize("text", [*VECTORS["invalid"], *sorted(LENIENT), "1e1001"])
def test_what_is_no_quantity_is_refused_by_name(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse(text)
    assert text in str(caught.value) or text[1:] in str(caught.value)


@pytest.mark.parametrize("value", [None, True, [], {}])
def test_a_value_that_json_does_not_allow_here_is_refused(value: Any) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(value)


@pytest.mark.parametrize(("a", "b", "total", "difference"), VECTORS["sums"])
def test_sums_and_differences_keep_the_suffix_family_as_kubernetes_does(
    a: str, b: str, total: str, difference: str
) -> None:
    left, right = Quantity.parse(a), Quantity.parse(b)
    assert str(left + right) == total
    assert str(left - right) == difference


def test_numbers_are_quantities_too() -> None:
    assert Quantity.parse(2) == Quantity.parse("2")
    assert Quantity.parse(0.5) == Quantity.parse("500m")
    assert Quantity.parse(1e-05) == Quantity.parse("10u")
    assert Quantity.parse(Quantity.parse("1Gi")) == Quantity.parse("1Gi")


def test_order_and_equality_look_at_the_amount_only() -> None:
    assert Quantity.parse("1024Mi") == Quantity.parse("1Gi")
    assert Quantity.parse("1000m") == Quantity.parse(1)
    assert hash(Quantity.parse("1e3")) == hash(Quantity.parse("1k"))
    assert Quantity.parse("1G") < Quantity.parse("1Gi")
    assert Quantity.parse("1") != "1"
    assert max(Quantity.parse("100m"), Quantity.parse("0.2")) == Quantity.parse("200m")


def test_a_product_keeps_its_family() -> None:
    assert str(Quantity.parse("512Mi") * 4) == "2Gi"
    assert str(3 * Quantity.parse("500m")) == "1500m"
    assert str(-Quantity.parse("1Ki")) == "-1Ki"


def test_zero_is_false_and_takes_the_family_of_the_first_summand() -> None:
    assert not ZERO
    assert Quantity.parse("1n")
    assert (ZERO + Quantity.parse("2Gi")).family is Family.BINARY
    assert repr(ZERO + Quantity.parse("2Gi")) == "Quantity('2Gi')"
