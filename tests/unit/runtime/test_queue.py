"""The work queue, under virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from manta.runtime.queue import Closed, Done, Retry, WorkQueue
from support.virtual_time import run_virtual


def virtually(main: Coroutine[Any, Any, None]) -> None:
    run_virtual(main)


def a_queue() -> WorkQueue[str]:
    return WorkQueue(Random(1))


async def at() -> float:
    return asyncio.get_running_loop().time()


def test_a_key_added_many_times_waits_once() -> None:
    async def main() -> None:
        queue = a_queue()
        for _ in range(5):
            queue.add("a")
        assert await queue.get() == "a"
        assert queue.depth == 0

    virtually(main())


def test_a_key_never_runs_twice_at_once() -> None:
    async def main() -> None:
        queue = a_queue()
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        assert queue.depth == 0
        queue.done("a")
        assert queue.depth == 1
        assert await queue.get() == "a"

    virtually(main())


def test_keys_are_served_in_the_order_of_their_arrival() -> None:
    async def main() -> None:
        queue = a_queue()
        for key in ("a", "b", "c"):
            queue.add(key)
        assert await queue.get() == "a"
        queue.add("a")  # a busy key goes behind the others
        queue.done("a")
        assert [await queue.get() for _ in range(3)] == ["b", "c", "a"]

    virtually(main())


def test_of_several_delays_the_earliest_counts() -> None:
    async def main() -> None:
        queue = a_queue()
        queue.add_after("a", 10)
        queue.add_after("a", 3)
        queue.add_after("a", 7)
        assert await queue.get() == "a"
        assert await at() == pytest.approx(3)
        queue.done("a")
        assert queue.delayed == 0

    virtually(main())


def test_a_round_drops_the_timer_set_before_it() -> None:
    async def main() -> None:
        queue = a_queue()
        queue.add_after("a", 10)
        queue.add("a")
        await queue.get()
        queue.finish("a", Done(timedelta(seconds=60)))
        assert await queue.get() == "a"
        assert await at() == pytest.approx(60)

    virtually(main())


def test_a_delay_asked_for_while_the_key_runs_is_kept() -> None:
    async def main() -> None:
        queue = a_queue()
        queue.add("a")
        await queue.get()
        queue.add_after("a", 5)
        queue.finish("a", Done())
        assert await queue.get() == "a"
        assert await at() == pytest.approx(5)

    virtually(main())


def test_failures_back_off_ever_longer_and_a_success_forgets_them() -> None:
    async def main() -> None:
        queue = a_queue()
        queue.add("a")
        pauses = []
        for _ in range(30):
            await queue.get()
            before = await at()
            queue.finish("a", Retry("broken"))
            await queue.get()
            pauses.append(await at() - before)
            queue.done("a")
            queue.add("a")
        assert pauses[0] < 0.01
        assert pauses[1] > pauses[0]
        assert 300 <= pauses[-1] <= 360
        await queue.get()
        queue.finish("a", Done())
        assert queue.failures("a") == 0

    virtually(main())


def test_timers_that_rounds_have_dropped_do_not_pile_up() -> None:
    async def main() -> None:
        queue = a_queue()
        queue.add("a")
        for _ in range(1000):
            await queue.get()
            queue.finish("a", Done(timedelta(seconds=300)))
            queue.add("a")
        assert len(queue._timers) < 100
        assert queue.delayed == 1

    virtually(main())


def test_a_cancelled_worker_does_not_swallow_a_key() -> None:
    async def main() -> None:
        queue = a_queue()
        first = asyncio.ensure_future(queue.get())
        second = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        await asyncio.sleep(0)
        assert await asyncio.wait_for(second, 1) == "a"

    virtually(main())


def test_a_closed_queue_hands_out_nothing_and_tells_when_it_is_idle() -> None:
    async def main() -> None:
        queue = a_queue()
        queue.add("a")
        queue.add("b")
        await queue.get()
        queue.close()
        with pytest.raises(Closed):
            await queue.get()
        idle = asyncio.ensure_future(queue.idle())
        await asyncio.sleep(1)
        assert not idle.done()
        queue.done("a")
        await asyncio.wait_for(idle, 1)

    virtually(main())


def test_waiting_workers_are_released_when_the_queue_closes() -> None:
    async def main() -> None:
        queue = a_queue()
        workers = [asyncio.ensure_future(queue.get()) for _ in range(3)]
        await asyncio.sleep(0)
        queue.close()
        results = await asyncio.gather(*workers, return_exceptions=True)
        assert all(isinstance(one, Closed) for one in results)

    virtually(main())


def test_the_age_of_the_oldest_running_reconcile_is_known() -> None:
    async def main() -> None:
        queue = a_queue()
        assert queue.longest_running() == 0.0
        for key in ("a", "b"):
            queue.add(key)
            await queue.get()
            await asyncio.sleep(2.0)
        assert queue.longest_running() == pytest.approx(4.0)

    virtually(main())


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_key_without_a_delay_is_ready_at_once(seconds: float) -> None:
    async def main() -> None:
        queue = a_queue()
        queue.add_after("a", seconds)
        assert (queue.depth, queue.delayed) == (1, 0)

    virtually(main())


def test_the_last_timer_fires_without_an_error() -> None:
    async def main() -> None:
        errors: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        queue = a_queue()
        queue.add_after("a", 1)
        assert await queue.get() == "a"
        assert errors == []

    virtually(main())
