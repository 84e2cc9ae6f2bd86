"""Backoff."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from manta.runtime.backoff import KEY_BACKOFF, Backoff, Failures


@given(st.integers(1, 10_000), st.integers())
def test_delays_stay_between_base_and_cap_plus_jitter(failures: int, seed: int) -> None:
    delay = KEY_BACKOFF.delay(failures, Random(seed))
    assert KEY_BACKOFF.base <= delay <= KEY_BACKOFF.cap * (1 + KEY_BACKOFF.jitter)


def test_delays_double_until_the_cap() -> None:
    calm = Backoff(base=1, cap=10, jitter=0)
    assert [calm.delay(n, Random(1)) for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_a_success_forgets_and_leaves_nothing_behind() -> None:
    failures: Failures[str] = Failures(Backoff(base=1, jitter=0), Random(1))
    assert [failures.next_delay("a"), failures.next_delay("a")] == [1, 2]
    failures.forget("a")
    assert failures.next_delay("a") == 1
    failures.forget("a")
    assert len(failures) == 0
