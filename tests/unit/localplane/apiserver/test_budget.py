"""The bytes that the server keeps for its clients."""

from __future__ import annotations

import asyncio

import pytest

from manta.localplane.apiserver import budget
from manta.localplane.apiserver.budget import Budget, BudgetError


class Now:
    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


def evicting(limits, client, evicted, elapsed):
    hold = limits.open(client, lambda: (evicted.append(client), hold.set(0)))
    hold.add(elapsed)
    return hold


async def waits(hold, size=0):
    task = asyncio.create_task(hold.space(size))
    for _ in range(3):
        await asyncio.sleep(0)
    if task.done():
        return False
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return True


async def test_a_client_at_its_limit_waits_and_others_do_not():
    limits = Budget(100, 1000)
    first, second, other = (limits.open(name, lambda: None) for name in ("a", "a", "b"))
    first.set(90)
    assert await waits(second, 20)
    assert not await waits(second, 10)
    assert not await waits(other, 100)


async def test_whoever_waits_goes_on_when_there_is_space():
    limits = Budget(100, 1000)
    first, second = (limits.open("a", lambda: None) for _ in range(2))
    first.set(100)
    task = asyncio.create_task(second.space(50))
    await asyncio.sleep(0)
    first.set(40)
    async with asyncio.timeout(10):
        await task


async def test_one_thing_that_is_larger_than_the_limit_passes_alone():
    limits = Budget(100, 1000)
    hold = limits.open("a", lambda: None)
    assert not await waits(hold, 5000)
    hold.set(5000)
    assert await waits(limits.open("a", lambda: None), 1)


async def test_a_full_server_lets_clients_through_that_hold_little(monkeypatch):
    monkeypatch.setattr(budget, "SMALL_BYTES", 10)
    limits = Budget(100, 150)
    for name in ("a", "b"):
        limits.open(name, lambda: None).set(75)
    small, large = limits.open("c", lambda: None), limits.open("d", lambda: None)
    small.set(4)
    large.set(11)
    assert not await waits(small, 5)
    assert await waits(large, 5)


async def test_a_stalled_stream_is_ended_for_others_of_the_same_client():
    now, evicted = Now(), []
    limits = Budget(100, 1000, now)
    stalled = evicting(limits, "a", evicted, 60)
    now.time = 2 * budget.STALLED_SECONDS
    moving = evicting(limits, "a", evicted, 40)
    async with asyncio.timeout(10):
        await limits.open("a", lambda: None).space(30)
    assert (evicted, stalled.bytes, moving.bytes) == (["a"], 0, 40)


async def test_for_the_whole_server_the_client_that_holds_most_gives_way(monkeypatch):
    monkeypatch.setattr(budget, "SMALL_BYTES", 0)
    now, evicted = Now(), []
    limits = Budget(100, 150, now)
    evicting(limits, "a", evicted, 60)
    evicting(limits, "b", evicted, 90)
    now.time = 2 * budget.STALLED_SECONDS
    mine = limits.open("c", lambda: None)
    mine.set(1)
    async with asyncio.timeout(10):
        await mine.space(20)
    assert evicted == ["b"]


async def test_waiting_ends_with_an_error(monkeypatch):
    monkeypatch.setattr(budget, "PATIENCE_SECONDS", 0.0)
    limits = Budget(100, 1000)
    hold = limits.open("user eve", lambda: None)
    hold.set(100)
    with pytest.raises(BudgetError, match="user eve holds 100 bytes"):
        await hold.space(1)


def test_what_is_closed_holds_nothing():
    limits = Budget(100, 1000)
    hold = limits.open("a", lambda: None)
    hold.set(70)
    assert (limits.used, limits.used_by("a")) == (70, 70)
    hold.close()
    assert (limits.used, limits.used_by("a")) == (0, 0)
