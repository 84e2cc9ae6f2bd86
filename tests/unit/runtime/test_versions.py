"""Order between resourceVersions."""

from __future__ import annotations

from manta.runtime.versions import is_newer, is_older, number


def test_decimal_versions_are_ordered_as_numbers() -> None:
    assert is_older("9", "10")
    assert not is_older("10", "9")
    assert not is_older("10", "10")


def test_versions_without_order_are_always_possibly_older() -> None:
    assert number("abc") is None
    assert is_older("abc", "abd")
    assert is_older("abd", "abc")


def test_only_versions_with_an_order_are_certainly_newer() -> None:
    assert is_newer("10", "9")
    assert not is_newer("9", "10")
    assert not is_newer("10", "10")
    assert not is_newer("abd", "abc")
    assert not is_newer("", "1")
