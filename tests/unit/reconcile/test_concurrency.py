"""How many actions are under way at once, by what the server makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from manta.reconcile.concurrency import (
    MAX_CONCURRENT,
    MAX_IN_FLIGHT,
    MAX_YIELD_SECONDS,
    ConcurrencyLimit,
    LargePlanThrottle,
)
from support.virtual_time import run_virtual


def walk(limit: ConcurrencyLimit, answers: int, seconds: Callable[[int], float]) -> list[int]:
    """The widths before so many answers of a server that takes `seconds` with so many at once."""
    widths = []
    for _ in range(answers):
        widths.append(limit.limit)
        limit.succeeded(seconds(limit.limit))
    return widths


def ample(_: int) -> float:
    """A server that answers as fast, however many ask."""
    return 0.01


def serial(width: int) -> float:
    """A server that does one thing at a time."""
    return 0.01 * width


def four_cores(width: int) -> float:
    return 0.01 * max(1.0, width / 4)


def test_every_success_makes_room_for_one_more_up_to_a_limit() -> None:
    widths = walk(ConcurrencyLimit(is_large=False), MAX_CONCURRENT + 2, ample)
    assert widths == [*range(1, MAX_CONCURRENT + 1), MAX_CONCURRENT, MAX_CONCURRENT]


def test_a_large_plan_begins_every_stage_one_by_one() -> None:
    limit = ConcurrencyLimit(is_large=True)
    walk(limit, 9, ample)
    limit.begin_stage()
    assert walk(limit, 3, ample) == [1, 2, 3]


def test_a_large_plan_keeps_few_waiting_in_the_servers_queue() -> None:
    assert set(walk(ConcurrencyLimit(is_large=True), 100, serial)[20:]) <= {2, 3}
    assert set(walk(ConcurrencyLimit(is_large=True), 100, four_cores)[20:]) <= {5, 6}


def test_a_far_server_with_room_is_asked_as_much_as_a_near_one() -> None:
    far = walk(ConcurrencyLimit(is_large=True), 50, lambda width: 0.1 + ample(width))
    assert far[-1] == MAX_CONCURRENT


def test_a_far_server_always_has_something_to_do() -> None:
    """It is also slow because of others: the way to it is no shorter for that."""
    limit = ConcurrencyLimit(is_large=True)
    walk(limit, 20, lambda _: 0.021)
    assert min(walk(limit, 100, lambda _: 0.06)) == 10


def test_a_slow_server_that_looks_far_off_is_asked_for_less() -> None:
    limit = ConcurrencyLimit(is_large=True)
    walk(limit, 30, lambda _: 0.04)
    assert walk(limit, 100, lambda _: 0.4)[-1] == MAX_IN_FLIGHT


def test_a_near_server_that_others_slow_down_is_asked_one_by_one() -> None:
    limit = ConcurrencyLimit(is_large=True)
    walk(limit, 12, lambda _: 0.006)
    assert walk(limit, 100, lambda _: 0.04)[-1] == 1


def test_a_server_that_was_busy_is_asked_for_more_when_it_is_not() -> None:
    limit = ConcurrencyLimit(is_large=True)
    assert walk(limit, 50, serial)[-1] <= 3
    assert walk(limit, 50, ample)[-1] == MAX_CONCURRENT


def test_a_small_plan_is_not_held_back() -> None:
    assert walk(ConcurrencyLimit(is_large=False), 4, serial) == [1, 2, 3, 4]


def test_after_a_failure_the_next_stage_begins_slowly() -> None:
    limit = ConcurrencyLimit(is_large=True)
    walk(limit, 9, ample)
    limit.failed()
    assert walk(limit, 3, ample) == [1, 2, 3]


def test_no_time_at_all_is_fast() -> None:
    assert walk(ConcurrencyLimit(is_large=True), 5, lambda _: 0.0) == [1, 2, 3, 4, 5]


def test_answers_of_one_kind_of_request_say_nothing_of_the_next() -> None:
    """Accounts and Services in 4 ms, and then Pods that a webhook looks at."""
    limit = ConcurrencyLimit(is_large=True)
    walk(limit, 4, lambda _: 0.004)
    limit.begin_stage()
    assert walk(limit, 50, lambda _: 0.06)[-1] == MAX_CONCURRENT


def test_answers_that_take_now_more_now_less_are_no_queue() -> None:
    """Most of them: some chance is left, and costs limit, not more."""
    widths: list[int] = []
    for seed in range(20):
        random = Random(seed)
        widths += walk(
            ConcurrencyLimit(is_large=True),
            300,
            lambda _: 0.005 * random.lognormvariate(0, 0.35),  # noqa: B023  # called at once
        )
    assert sum(widths) / len(widths) > 9


def test_a_clock_of_milliseconds_is_good_enough() -> None:
    quick = iter([0.0])
    assert (
        walk(ConcurrencyLimit(is_large=True), 60, lambda _: next(quick, 0.001))[-1]
        == MAX_CONCURRENT
    )


def test_a_large_plan_yields_only_so_long_in_total_however_often_it_is_asked_to() -> None:
    async def story() -> None:
        throttle, limit = LargePlanThrottle(), ConcurrencyLimit(is_large=True)
        clock = asyncio.get_running_loop().time
        began = clock()
        for _ in range(10):
            with throttle.small_plan(lingers=True):
                pass
            await throttle.yield_to_small(limit)
        assert clock() - began == pytest.approx(MAX_YIELD_SECONDS)

    run_virtual(story())
