"""When a request is repeated, and after how long."""

from __future__ import annotations

import pytest

from manta.kube.errors import Conflict, MantaError, TooManyRequests, Unavailable, Unreachable
from manta.kube.retry import RetryPolicy, RetryState, delay_before_next, may_repeat

SLOW_DOWN = TooManyRequests(429, "", "", {"retryAfterSeconds": 3})
FLOODED = TooManyRequests(429, "", "")
BROKEN = Unavailable(503, "", "")
REFUSED = Unreachable("", sent=False)
LOST = Unreachable("", sent=True)


@pytest.mark.parametrize(
    ("method", "error", "repeat"),
    [
        ("GET", BROKEN, True),
        ("GET", LOST, True),
        ("GET", REFUSED, True),
        ("GET", FLOODED, True),
        ("GET", Conflict(409, "", ""), False),
        ("POST", SLOW_DOWN, True),
        ("POST", FLOODED, False),
        ("POST", REFUSED, True),
        ("POST", LOST, False),
        ("PUT", LOST, False),
        ("PATCH", BROKEN, False),
        ("DELETE", LOST, False),
        ("DELETE", BROKEN, False),
    ],
)
def test_a_write_is_repeated_only_if_it_was_surely_not_done(
    method: str, error: MantaError, repeat: bool
) -> None:
    assert may_repeat(method, error) is repeat


def test_delays_grow_up_to_the_longest_and_are_spread() -> None:
    policy = RetryPolicy(attempts=10, first_delay=1.0, longest_delay=8.0)
    highest = [delay_before_next(policy, RetryState(n), "GET", LOST, 1.0) for n in range(1, 6)]
    lowest = [delay_before_next(policy, RetryState(n), "GET", LOST, 0.0) for n in range(1, 6)]
    assert highest == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert lowest == [0.5, 1.0, 2.0, 4.0, 4.0]


def test_the_server_names_the_least_delay() -> None:
    delay = delay_before_next(RetryPolicy(), RetryState(), "POST", SLOW_DOWN, 0.5)
    assert delay is not None
    assert delay >= 3


def test_a_server_that_wants_minutes_is_left_to_the_caller() -> None:
    minutes = TooManyRequests(429, "", "", {"retryAfterSeconds": 300})
    assert delay_before_next(RetryPolicy(), RetryState(), "GET", minutes, 0.0) is None


def test_the_attempts_are_bounded() -> None:
    policy = RetryPolicy(attempts=3)
    assert delay_before_next(policy, RetryState(2), "GET", LOST, 0.0) is not None
    assert delay_before_next(policy, RetryState(3), "GET", LOST, 0.0) is None
    assert delay_before_next(RetryPolicy(attempts=1), RetryState(), "GET", REFUSED, 0.0) is None


def test_the_time_limit_ends_retries_even_with_attempts_left() -> None:
    policy = RetryPolicy(max_elapsed=60)
    assert delay_before_next(policy, RetryState(2, elapsed=30), "GET", LOST, 0.0) is not None
    assert delay_before_next(policy, RetryState(2, elapsed=60), "GET", LOST, 0.0) is None
