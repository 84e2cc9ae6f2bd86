"""The token bucket, on a clock that only sleeping moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.kube.ratelimit import TokenBucket


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
