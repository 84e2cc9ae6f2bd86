"""The bytes that the server keeps for its clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.httpserver import budget
from manta.httpserver.budget import BudgetError, MemoryBudget


class Now:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self):
        return self.time


def evicting(limits, client, evicted, elapsed):
    def evict() -> None:
        evicted.append(client)
        reservation.resize(0)

    reservation: Any = limits.open(client, evict)
    reservation.add(elapsed)
    return reservation


async def waits(reservation, size=0) -> bool:
    task = asyncio.create_task(reservation.wait_for(size))
    for _ in range(3):
        await asyncio.sleep(0)
    if task.done():
        return False
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return True


async def test_a_client_at_its_limit_waits_and_others_do_not() -> None:
    limits = MemoryBudget(100, 1000)
    first, second, other = (limits.open(name, lambda: None) for name in ("a", "a", "b"))
    first.resize(90)
    assert await waits(second, 20)
    assert not await waits(second, 10)
    assert not await waits(other, 100)


async def test_a_waiting_stream_continues_when_memory_is_free() -> None:
    limits = MemoryBudget(100, 1000)
    first, second = (limits.open("a", lambda: None) for _ in range(2))
    first.resize(100)
    task = asyncio.create_task(second.wait_for(50))
    await asyncio.sleep(0)
    first.resize(40)
    async with asyncio.timeout(10):
        await task


async def test_a_single_request_may_exceed_the_limit() -> None:
    limits = MemoryBudget(100, 1000)
    reservation = limits.open("a", lambda: None)
    assert not await waits(reservation, 5000)
    reservation.resize(5000)
    assert await waits(limits.open("a", lambda: None), 1)


async def test_small_clients_do_not_wait_for_a_full_server(monkeypatch) -> None:
    monkeypatch.setattr(budget, "SMALL_BYTES", 10)
    limits = MemoryBudget(100, 150)
    for name in ("a", "b"):
        limits.open(name, lambda: None).resize(75)
    small, large = limits.open("c", lambda: None), limits.open("d", lambda: None)
    small.resize(4)
    large.resize(11)
    assert not await waits(small, 5)
    assert await waits(large, 5)


async def test_a_stalled_stream_is_ended_for_others_of_the_same_client() -> None:
    now, evicted = Now(), []
    limits = MemoryBudget(100, 1000, now)
    stalled = evicting(limits, "a", evicted, 60)
    now.time = 2 * budget.STALLED_SECONDS
    moving = evicting(limits, "a", evicted, 40)
    async with asyncio.timeout(10):
        await limits.open("a", lambda: None).wait_for(30)
    assert (evicted, stalled.bytes, moving.bytes) == (["a"], 0, 40)


async def test_a_full_server_ends_a_stream_of_the_largest_client(monkeypatch) -> None:
    monkeypatch.setattr(budget, "SMALL_BYTES", 0)
    now, evicted = Now(), []
    limits = MemoryBudget(100, 150, now)
    evicting(limits, "a", evicted, 60)
    evicting(limits, "b", evicted, 90)
    now.time = 2 * budget.STALLED_SECONDS
    mine = limits.open("c", lambda: None)
    mine.resize(1)
    async with asyncio.timeout(10):
        await mine.wait_for(20)
    assert evicted == ["b"]


async def test_waiting_ends_with_an_error(monkeypatch) -> None:
    monkeypatch.setattr(budget, "WAIT_SECONDS", 0.0)
    limits = MemoryBudget(100, 1000)
    reservation = limits.open("user eve", lambda: None)
    reservation.resize(100)
    with pytest.raises(BudgetError, match="user eve holds 100 bytes"):
        await reservation.wait_for(1)


def test_a_closed_reservation_holds_nothing() -> None:
    limits = MemoryBudget(100, 1000)
    reservation = limits.open("a", lambda: None)
    reservation.resize(70)
    assert (limits.used, limits.used_by("a")) == (70, 70)
    reservation.close()
    assert (limits.used, limits.used_by("a")) == (0, 0)
