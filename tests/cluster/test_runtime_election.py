"""Leader election: two replicas never both write, and a blocked loop loses nothing (C35)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.resources import CONFIG_MAPS, LEASES
from manta.kube.client import Client
from manta.kube.retry import RetryPolicy
from manta.kube.transport import Request, Response, StreamResponse, Transport
from manta.runtime.clock import SystemClock
from manta.runtime.election import Election, ElectionThread, Leadership
from manta.runtime.gate import GatedTransport, WriteGate, WritesStopped
from manta.runtime.lease import Timing
from support.faults import FaultTransport, touches
from support.plane import MemoryPlane, memory_plane
from support.virtual import faulty, running, until, virtual_plane, virtually

LEASE = Key("kube-system", "ray-operator-leader")
RENEWALS = touches(LEASES, "PUT")


class Replica:
    """A candidate that writes a ConfigMap whenever it may."""

    def __init__(self, plane: MemoryPlane, name: str, timing: Timing | None = None) -> None:
        self.name = name
        self.faults = faulty(plane)
        self.gate = WriteGate(plane.clock)
        self.election = Election(
            plane.clock, Random(name), self.gate, lease=LEASE, identity=name, timing=timing
        )
        # Without retries inside the client, as the operator's election thread has none to spare.
        self.client = Client(self.faults, timeout=5)
        self.writer = Client(GatedTransport(FaultTransport(self.faults), self.gate))

    async def run(self) -> None:
        await self.election.run(self.client)

    @property
    def leading(self) -> bool:
        return self.gate.remaining > 0


async def write_always(plane: MemoryPlane, replica: Replica) -> None:
    """Try to write twice a second: the audit log shows who could."""
    number = 0
    while True:
        number += 1
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{replica.name}-{number}"},
        }
        with suppress(WritesStopped):
            await replica.writer.create(CONFIG_MAPS, "default", body)
        await asyncio.sleep(0.5)


def written(replica: Replica) -> list[float]:
    return [one.at for one in replica.faults.accepted_writes("/configmaps")]


async def both(plane: MemoryPlane) -> tuple[Replica, Replica]:
    return Replica(plane, "one"), Replica(plane, "two")


@virtually
async def test_one_of_two_leads_and_the_other_takes_over_when_it_is_killed() -> None:
    async with virtual_plane() as plane:
        one, two = await both(plane)
        async with running(one.run()):
            await until(lambda: one.leading)
            async with running(two.run(), write_always(plane, two)):
                await asyncio.sleep(60)
                assert one.leading
                assert not two.leading
                one.faults.dead = True  # as kill -9: no goodbye, nothing more is sent
                killed = plane.clock.monotonic()
                await until(lambda: two.leading)
                assert plane.clock.monotonic() - killed < 20
                assert not one.leading


@virtually
async def test_a_replica_that_ends_hands_the_lease_over_at_once() -> None:
    async with virtual_plane() as plane:
        one, two = await both(plane)
        async with running(two.run()):
            await until(lambda: two.leading)
            lease = await plane.client.get(LEASES, LEASE)
            assert lease["spec"]["holderIdentity"] == "two"
        async with running(one.run()):
            began = plane.clock.monotonic()
            await until(lambda: one.leading)
            assert plane.clock.monotonic() - began < 3
        lease = await plane.client.get(LEASES, LEASE)
        assert lease["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("seconds", [4, 8, 12, 30])
def test_slow_renewals_never_let_two_write(seconds: float) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane() as plane:
            one, two = await both(plane)
            tasks = (one.run(), two.run(), write_always(plane, one), write_always(plane, two))
            async with running(*tasks):
                await asyncio.sleep(60)
                leader = one if one.leading else two
                leader.faults.slow(RENEWALS, seconds)
                await asyncio.sleep(120)
            _assert_never_together(written(one), written(two))
            assert written(one) or written(two)

    story()


@virtually
async def test_a_partition_stops_the_old_leader_before_the_new_one_begins() -> None:
    async with virtual_plane() as plane:
        one, two = await both(plane)
        tasks = (one.run(), two.run(), write_always(plane, one), write_always(plane, two))
        async with running(*tasks):
            for _ in range(5):
                await asyncio.sleep(40)
                leader = one if one.leading else two
                leader.faults.fail_before(touches(LEASES), times=None)
                await asyncio.sleep(40)
                leader.faults._rules.clear()
        _assert_never_together(written(one), written(two))
        assert written(one)
        assert written(two)


def _assert_never_together(first: list[float], second: list[float]) -> None:
    """Between the last write of one and the first of the other lies the rest of the lease."""
    order = sorted([(at, "one") for at in first] + [(at, "two") for at in second])
    turns = [later[0] - earlier[0] for earlier, later in pairwise(order) if earlier[1] != later[1]]
    assert all(gap > 1 for gap in turns), turns


async def lease_of_another(plane: MemoryPlane, **spec: Any) -> None:
    body = {"metadata": {"name": LEASE.name}, "spec": {"holderIdentity": "other", **spec}}
    await plane.client.create(LEASES, LEASE.namespace, body)


@virtually
async def test_a_lease_that_says_only_its_holder_expires_after_a_second() -> None:
    async with virtual_plane() as plane:
        await lease_of_another(plane)
        one = Replica(plane, "one", Timing(duration=15, renew_deadline=10, retry=0.5))
        began = plane.clock.monotonic()
        async with running(one.run()):
            await until(lambda: one.leading)
            assert 1 <= plane.clock.monotonic() - began < 2
            lease = await plane.client.get(LEASES, LEASE)
        assert lease["spec"]["leaseTransitions"] == 1


@virtually
async def test_the_lease_says_since_when_it_is_held_and_when_it_was_renewed() -> None:
    async with virtual_plane() as plane:
        one = Replica(plane, "one")
        async with running(one.run()):
            await until(lambda: one.leading)
            first = (await plane.client.get(LEASES, LEASE))["spec"]
            await asyncio.sleep(10)
            later = (await plane.client.get(LEASES, LEASE))["spec"]
        assert first["acquireTime"] == first["renewTime"] == later["acquireTime"]
        assert later["renewTime"] > first["renewTime"]


@virtually
async def test_a_candidate_looks_at_the_lease_as_often_as_its_timing_says() -> None:
    async with virtual_plane() as plane:
        await lease_of_another(plane, leaseDurationSeconds=600)
        one = Replica(plane, "one", Timing(duration=15, renew_deadline=10, retry=0.5))
        async with running(one.run()):
            await asyncio.sleep(60)
        assert not one.leading
        assert 100 <= len(one.faults.log) <= 121


@virtually
async def test_what_a_round_of_an_earlier_term_still_wants_to_write_is_void() -> None:
    async with virtual_plane() as plane:
        replica = Replica(plane, "one")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}

        async def slow_round() -> None:
            replica.gate.enter_term()
            await asyncio.sleep(60)
            await replica.writer.create(CONFIG_MAPS, "default", body)

        replica.gate.open(plane.clock.monotonic() + 10)
        late = asyncio.create_task(slow_round())
        await asyncio.sleep(30)
        assert not replica.leading
        replica.gate.open(plane.clock.monotonic() + 1000)
        with pytest.raises(WritesStopped):
            await late


# ── in a thread, in real time ────────────────────────────────────────────────────────────


class Bridge:
    """A transport to a server that lives in the loop of another thread."""

    def __init__(self, inner: Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    async def send(self, request: Request) -> Response:
        sent = asyncio.run_coroutine_threadsafe(self._inner.send(request), self._loop)
        return await asyncio.wrap_future(sent)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


@contextmanager
def served_in_a_thread() -> Iterator[Bridge]:
    ready, done = threading.Event(), threading.Event()
    found: list[Any] = []

    async def serve() -> None:
        async with memory_plane() as plane:
            found.extend([plane.client.transport, asyncio.get_running_loop()])
            ready.set()
            while not done.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait(10)
    try:
        yield Bridge(found[0], found[1])
    finally:
        done.set()
        thread.join()


async def test_a_blocked_main_loop_does_not_lose_the_lease() -> None:
    clock = SystemClock()
    gate = WriteGate(clock)
    leadership = Leadership()
    reported: list[bool] = []
    timing = Timing(duration=2.0, renew_deadline=1.5, retry=0.1)
    with served_in_a_thread() as bridge:

        async def connect() -> Client:
            return Client(bridge, retry=RetryPolicy())

        def election(on_change: Any) -> Election:
            def change(leading: bool) -> None:
                reported.append(leading)
                on_change(leading)

            return Election(
                clock,
                Random(1),
                gate,
                lease=LEASE,
                identity="me",
                timing=timing,
                on_change=change,
            )

        thread = asyncio.create_task(ElectionThread(connect, election, leadership).run())
        await asyncio.wait_for(leadership.gained(), 10)
        time.sleep(2.5)  # longer than the lease: nothing but another thread can renew it now
        assert gate.remaining > 0
        assert reported == [True]
        thread.cancel()
        await asyncio.gather(thread, return_exceptions=True)
        assert gate.remaining == 0
        assert reported == [True, False]


async def test_what_ends_the_thread_is_raised() -> None:
    async def connect() -> Client:
        raise OSError("no certificate")

    def election(_: Any) -> Election:
        raise AssertionError("nothing to elect on")

    with pytest.raises(OSError, match="no certificate"):
        await ElectionThread(connect, election, Leadership()).run()
