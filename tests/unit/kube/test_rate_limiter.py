"""The token bucket, on a clock that only sleeping moves."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.kube.rate_limiter import AdaptiveRateLimiter, TokenBucket


class Sleeper:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def bucket(sleeper: Sleeper, qps: float, burst: int) -> TokenBucket:
    return TokenBucket(qps, burst, monotonic=sleeper.monotonic, sleep=sleeper.sleep)


async def test_a_burst_passes_at_once_and_then_the_rate_holds() -> None:
    sleeper = Sleeper()
    limiter = bucket(sleeper, qps=2, burst=3)
    passed = []
    for _ in range(6):
        await limiter.acquire()
        passed.append(sleeper.now - 100)
    assert passed == [0, 0, 0, 0.5, 1.0, 1.5]


async def test_idle_time_gives_back_no_more_than_the_burst() -> None:
    sleeper = Sleeper()
    limiter = bucket(sleeper, qps=1, burst=2)
    for _ in range(2):
        await limiter.acquire()
    sleeper.now += 1000
    for _ in range(2):
        await limiter.acquire()
    assert sleeper.now == 1100
    await limiter.acquire()
    assert sleeper.now == 1101


@given(
    qps=st.floats(0.5, 100),
    burst=st.integers(1, 20),
    pauses=st.lists(st.floats(0, 5), min_size=1, max_size=60),
)
async def test_no_window_holds_more_than_rate_and_burst_allow(
    qps: float, burst: int, pauses: list[float]
) -> None:
    sleeper = Sleeper()
    limiter = bucket(sleeper, qps, burst)
    passed = []
    for pause in pauses:
        sleeper.now += pause
        await limiter.acquire()
        passed.append(sleeper.now)
    for first, start in enumerate(passed):
        for last in range(first, len(passed)):
            allowed = burst + qps * (passed[last] - start)
            assert last - first + 1 <= allowed + 1e-6


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="qps"):
        TokenBucket(0, 1)


def adaptive(sleeper: Sleeper) -> AdaptiveRateLimiter:
    return AdaptiveRateLimiter(monotonic=sleeper.monotonic, sleep=sleeper.sleep)


async def sent_in(sleeper: Sleeper, limiter: AdaptiveRateLimiter, seconds: float) -> int:
    end, count = sleeper.now + seconds, 0
    while sleeper.now < end:
        await limiter.acquire()
        count += 1
        if limiter.rate == math.inf:
            sleeper.now += 0.005
    return count


async def test_nothing_is_held_back_from_a_server_that_never_refuses() -> None:
    sleeper = Sleeper()
    limiter = adaptive(sleeper)
    for _ in range(5000):
        await limiter.acquire()
    assert sleeper.now == 100


async def test_after_a_refusal_half_as_many_leave() -> None:
    sleeper = Sleeper()
    limiter = adaptive(sleeper)
    before = await sent_in(sleeper, limiter, 2) / 2
    limiter.refused()
    assert await sent_in(sleeper, limiter, 0.5) == pytest.approx(before / 4, rel=0.1)


async def test_refusals_that_come_together_count_once() -> None:
    sleeper = Sleeper()
    one, many = adaptive(sleeper), adaptive(sleeper)
    await sent_in(sleeper, one, 2)
    sleeper.now = 100
    await sent_in(sleeper, many, 2)
    one.refused()
    for _ in range(50):
        many.refused()
    assert many.rate == one.rate


async def test_refusals_that_go_on_slow_down_ever_more_but_not_for_ever() -> None:
    sleeper = Sleeper()
    limiter = adaptive(sleeper)
    await sent_in(sleeper, limiter, 2)
    rates = []
    for _ in range(12):
        limiter.refused()
        rates.append(limiter.rate)
        await sent_in(sleeper, limiter, 1.1)
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == AdaptiveRateLimiter.MIN_RATE
    await sent_in(sleeper, limiter, 10)
    assert limiter.rate > 2 * AdaptiveRateLimiter.MIN_RATE
    sleeper.now += 200
    assert limiter.rate == math.inf


async def test_a_crowd_does_not_wait_by_the_rate_of_the_moment_of_the_refusal() -> None:
    """The rate grows while they wait: 300 at the lowest one alone would take a minute."""
    sleeper = Sleeper()
    limiter = adaptive(sleeper)
    limiter.refused()
    began = sleeper.now
    assert limiter.rate == AdaptiveRateLimiter.MIN_RATE
    await asyncio.gather(*(limiter.acquire() for _ in range(300)))
    assert 5 < sleeper.now - began < 300 / AdaptiveRateLimiter.MIN_RATE / 3


async def test_who_waits_hears_of_a_refusal_in_the_meantime() -> None:
    sleeper = Sleeper()
    limiter = adaptive(sleeper)
    limiter.refused()
    passed: list[float] = []

    async def one() -> None:
        await limiter.acquire()
        passed.append(sleeper.now)
        limiter.refused()  # each that leaves is refused again

    began = sleeper.now
    await asyncio.gather(*(one() for _ in range(60)))
    assert passed == sorted(passed)
    slowest = (
        AdaptiveRateLimiter.MIN_RATE * AdaptiveRateLimiter.GROWTH**AdaptiveRateLimiter.MIN_INTERVAL
    )
    assert passed[-1] - began >= 59 / slowest
