"""Virtual time."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from random import Random

import pytest

from support.virtual_time import EPOCH, Stuck, run_virtual, virtual_clock


def test_a_day_passes_without_waiting() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(86_400)


def test_the_clock_follows_the_loop() -> None:
    async def main() -> None:
        clock = virtual_clock()
        assert clock.now() == EPOCH
        await asyncio.sleep(90)
        assert clock.now() == EPOCH + timedelta(seconds=90)
        assert clock.monotonic() == pytest.approx(90)

    run_virtual(main())


def test_timers_ring_in_order_whoever_set_them_first() -> None:
    async def main() -> list[int]:
        rung: list[int] = []

        async def ring(after: int) -> None:
            await asyncio.sleep(after)
            rung.append(after)

        await asyncio.gather(*(ring(after) for after in (5, 1, 3, 2, 4)))
        return rung

    assert run_virtual(main()) == [1, 2, 3, 4, 5]


def test_the_same_seed_gives_the_same_run() -> None:
    async def main(random: Random) -> list[float]:
        moments = []
        for _ in range(10):
            await asyncio.sleep(random.random())
            moments.append(asyncio.get_running_loop().time())
        return moments

    assert run_virtual(main, 7) == run_virtual(main, 7)
    assert run_virtual(main, 7) != run_virtual(main, 8)


def test_waiting_for_nothing_is_an_error_and_not_a_hang() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck):
        run_virtual(main())


def test_a_delay_as_small_as_a_rounding_error_moves_the_clock() -> None:
    """Whoever waits for the rest of a time would else ask for ever."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(273.700457)
        until = math.nextafter(loop.time(), math.inf)
        for _ in range(3):
            if loop.time() >= until:
                return
            await asyncio.sleep(until - loop.time())
        raise AssertionError("the clock stands still")

    run_virtual(story())
