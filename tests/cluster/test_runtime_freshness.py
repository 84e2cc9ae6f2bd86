"""Read-your-writes: a toy controller that wants N children per parent, with server-given names.

Names given by the server are the hard case: nothing but freshness keeps it from making too many.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from manta.api.meta import Key, ObjectMeta, View
from manta.api.resources import CONFIG_MAPS
from manta.kube.client import Client
from manta.kube.transport import Transport
from manta.reconcile.actions import Create, Delete
from manta.reconcile.causes import ONLY_FAILURES, ActionCause
from manta.reconcile.plan import do
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.controller import Watch
from manta.runtime.freshness import Freshness, Owner
from manta.runtime.informer import Informer
from manta.runtime.manager import Manager
from support.faults import FaultTransport, is_write, touches
from support.plane import MemoryPlane
from support.virtual import faulty, running, until, virtual_plane, virtually

PARENT = Key("default", "parent")


class Why(ActionCause):
    SCALE = ONLY_FAILURES


class Map(View, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = msgspec.field(default_factory=dict)


class Toy(Reconciler[Map, Any]):
    name = "toy"
    workers = 8
    reconciles = 0

    def watches(self) -> Sequence[Watch[Any]]:
        self.maps = self.manager.informer(CONFIG_MAPS, Map, indexes={"parent": _parent})
        return (Watch(self.maps, wake),)

    async def observe(self, key: Key) -> Map | None:
        self.reconciles += 1
        return self.maps.get(key)

    def subject(self, snapshot: Map) -> Subject:
        return Subject(CONFIG_MAPS, snapshot.metadata)

    def plan(self, snapshot: Map) -> Step[Any]:
        wanted = int(snapshot.data["replicas"])
        children = self.maps.by("parent", "parent")
        missing = wanted - len(children)
        made = [Create(CONFIG_MAPS, child(), Why.SCALE) for _ in range(missing)]
        surplus = children[: max(-missing, 0)]
        gone = [
            Delete(CONFIG_MAPS, one.metadata.key, one.metadata.uid, Why.SCALE) for one in surplus
        ]
        # It wakes up again long before a slow watch catches up.
        return Step(do(*made, *gone), wake_in=timedelta(seconds=1))


def _parent(one: Map) -> tuple[str, ...]:
    return ("parent",) if one.metadata.labels.get("of") == "parent" else ()


def child() -> dict[str, Any]:
    return {
        "metadata": {
            "generateName": "child-",
            "namespace": "default",
            "labels": {"of": "parent"},
        }
    }


def wake(old: Map | None, new: Map | None) -> tuple[Key, ...]:
    return (PARENT,)


@asynccontextmanager
async def toy(plane: MemoryPlane, transport: Transport) -> AsyncIterator[Toy]:
    manager = Manager(Client(transport), plane.clock, Random(1), namespaces=("default",))
    reconciler = Toy(manager)
    async with running(manager.run()):
        yield reconciler


async def scale(plane: MemoryPlane, replicas: int) -> None:
    await plane.client.patch(CONFIG_MAPS, PARENT, {"data": {"replicas": str(replicas)}})


async def make_parent(plane: MemoryPlane, replicas: int) -> None:
    body = {"metadata": {"name": "parent"}, "data": {"replicas": str(replicas)}}
    await plane.client.create(CONFIG_MAPS, "default", body)


async def children(plane: MemoryPlane) -> int:
    listing = await plane.client.list(CONFIG_MAPS, "default", labels="of=parent")
    return len(listing.items)


def creates(faults: FaultTransport) -> int:
    """Of children: a failed action also creates an Event."""
    return sum(
        one.method == "POST" and "/configmaps" in one.path and one.accepted_write
        for one in faults.log
    )


def deletes(faults: FaultTransport) -> int:
    return sum(one.method == "DELETE" and one.accepted_write for one in faults.log)


@pytest.mark.parametrize("delay", [0, 2, 90])
def test_a_late_watch_makes_no_extra_child_and_no_extra_delete(delay: float) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane() as plane:
            faults = faulty(plane)
            if delay:
                faults.delay_watch(CONFIG_MAPS, delay)
            async with toy(plane, faults):
                await make_parent(plane, 50)
                await asyncio.sleep(delay + 300)
                assert (creates(faults), deletes(faults)) == (50, 0)
                await scale(plane, 10)
                await asyncio.sleep(delay + 300)
                assert (creates(faults), deletes(faults)) == (50, 40)
            assert await children(plane) == 10

    story()


@virtually
async def test_a_lost_reply_is_looked_into_and_not_repeated_blindly() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        faults.fail_after(touches(CONFIG_MAPS, "POST"), times=3)
        async with toy(plane, faults):
            await make_parent(plane, 20)
            await asyncio.sleep(300)
        assert await children(plane) == 20
        assert creates(faults) == 20
        assert deletes(faults) == 0


@virtually
async def test_a_lost_reply_and_a_late_watch_together_are_no_worse() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        faults.delay_watch(CONFIG_MAPS, 90)
        faults.fail_after(touches(CONFIG_MAPS, "POST"), times=2)
        async with toy(plane, faults):
            await make_parent(plane, 20)
            await asyncio.sleep(600)
        assert (creates(faults), deletes(faults)) == (20, 0)


@virtually
async def test_a_dropped_event_is_made_up_for_by_a_live_read() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        faults.drop_event(
            CONFIG_MAPS,
            lambda event: event["object"]["metadata"].get("name", "").startswith("child-"),
            times=1,
        )
        async with toy(plane, faults):
            await make_parent(plane, 1)
            await asyncio.sleep(120)
            assert creates(faults) == 1


@virtually
async def test_a_server_that_fails_now_and_then_still_gets_what_was_asked_for() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        async with toy(plane, faults):
            for trouble in (faults.fail_before, faults.throttle, faults.conflict, faults.deny):
                trouble(is_write, times=2)
            await make_parent(plane, 8)
            await asyncio.sleep(600)
        assert creates(faults) == 8
        assert await children(plane) == 8


@virtually
async def test_many_doubtful_objects_cost_one_list_and_not_a_read_each() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        faults.delay_watch(CONFIG_MAPS, 90)
        async with toy(plane, faults):
            await make_parent(plane, 500)
            await asyncio.sleep(300)
            assert creates(faults) == 500
        reads = [one for one in faults.log if one.method == "GET" and not one.watch]
        assert len(reads) < 20


@virtually
async def test_nothing_is_remembered_of_keys_that_are_settled() -> None:
    async with virtual_plane() as plane:
        manager = Manager(plane.client, plane.clock, Random(1), namespaces=("default",))
        reconciler = Toy(manager)
        async with running(manager.run()):
            await make_parent(plane, 30)
            await until(lambda: len(reconciler.maps.by("parent", "parent")) == 30)
            await asyncio.sleep(10)
            freshness = manager.freshness
            assert len(freshness) == 0
            assert not freshness._by_object
            assert not any(freshness._by_version.values())


@virtually
async def test_unchanged_objects_cost_no_request() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        async with toy(plane, faults) as reconciler:
            await make_parent(plane, 5)
            await asyncio.sleep(30)
            faults.log.clear()
            before = reconciler.reconciles
            await asyncio.sleep(100)
            assert reconciler.reconciles > before
            assert [one for one in faults.log if not one.watch] == []


# ── one owner, without a controller ──────────────────────────────────────────────────────────


@asynccontextmanager
async def one_cache(faults: FaultTransport) -> AsyncIterator[tuple[Informer[Map], Freshness]]:
    informer: Informer[Map] = Informer(
        Client(faults), CONFIG_MAPS, Map, namespace="default", random=Random(1)
    )
    freshness = Freshness(Random(1))
    freshness.track(informer)
    async with running(informer.run()):
        await informer.synced.wait()
        yield informer, freshness
    freshness.close()


def live_reads(faults: FaultTransport) -> list[str]:
    return [one.path for one in faults.log if one.method == "GET" and not one.watch]


@pytest.mark.parametrize("changed_before", [False, True])
def test_the_watch_alone_shows_that_a_delete_is_done(changed_before: bool) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane() as plane:
            await make_parent(plane, 1)
            faults = faulty(plane)
            faults.delay_watch(CONFIG_MAPS, 2)
            async with one_cache(faults) as (informer, freshness):
                before, owner = informer.get(PARENT), Owner("toy", PARENT)
                assert before is not None
                if changed_before:
                    patch = {"data": {"replicas": "2"}}
                    new = (await plane.client.patch(CONFIG_MAPS, PARENT, patch)).metadata
                    freshness.note_write(owner, CONFIG_MAPS, PARENT, new.resource_version)
                await plane.client.delete(CONFIG_MAPS, PARENT)
                freshness.note_delete(owner, CONFIG_MAPS, PARENT, before.metadata.uid)
                assert not freshness.is_fresh(owner)
                await asyncio.sleep(4)
                assert freshness.is_fresh(owner)
                assert live_reads(faults) == []

    story()


@virtually
async def test_each_doubtful_object_is_read_once() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        async with one_cache(faults) as (_, freshness):
            owner = Owner("toy", PARENT)
            for name in ("a", "b", "c"):
                freshness.note_unknown(owner, CONFIG_MAPS, Key("default", name))
            await until(lambda: freshness.is_fresh(owner))
            assert [path.rsplit("/", 1)[1] for path in live_reads(faults)] == ["a", "b", "c"]
