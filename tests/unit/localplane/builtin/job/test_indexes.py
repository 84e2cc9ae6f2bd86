"""The numbers of Indexed Jobs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.localplane.builtin.job import indexes


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((), ""), ((3,), "3"), ((0, 1), "0,1"), ((0, 1, 2), "0-2"), ((0, 2, 3, 4, 7, 8), "0,2-4,7,8")],
)
def test_numbers_are_written_as_kubernetes_writes_them(numbers: tuple[int, ...], text: str) -> None:
    assert indexes.write(numbers) == text
    assert indexes.read(text, 10) == frozenset(numbers)


@given(st.frozensets(st.integers(0, 60)))
def test_what_is_written_is_read_again(numbers: frozenset[int]) -> None:
    assert indexes.read(indexes.write(numbers), 61) == numbers


def test_numbers_that_nobody_wants_are_not_read() -> None:
    assert indexes.read("0-99,x,5-", 3) == frozenset({0, 1, 2})
