"""The manager: shared informers, supervision, leadership, graceful ends."""

from __future__ import annotations

import asyncio
import json
from random import Random

import pytest

from manta.api.meta import Key, Object
from manta.api.ray.resources import RAY_CRON_JOBS
from manta.api.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, GATEWAYS, LEASES
from manta.controllers.raycronjob.controller import build
from manta.kube.client import Client
from manta.rules.settings import Settings
from manta.runtime.controller import Controller, Watch, own_key
from manta.runtime.election import Election, Leadership
from manta.runtime.gate import GatedTransport, WriteGate
from manta.runtime.manager import Manager, TaskEnded
from manta.runtime.queue import Done, Retry
from support.faults import FaultTransport, touches
from support.plane import MemoryPlane
from support.raycronjob import NAMESPACE, children, cron_crds, finish, ray_cron_job
from support.rayservice import GATEWAY_CRDS
from support.virtual import faulty, running, until, virtual_plane, virtually


def a_manager(plane: MemoryPlane) -> Manager:
    return Manager(plane.client, plane.clock, Random(1), namespaces=("default",))


@virtually
async def test_who_asks_twice_for_an_informer_shares_it() -> None:
    async with virtual_plane() as plane:
        manager = a_manager(plane)
        first = manager.informer(CONFIG_MAPS, Object, labels="a=b")
        again = manager.informer(
            CONFIG_MAPS, Object, labels="a=b", indexes={"x": lambda _one: ("y",)}
        )
        assert first is again
        assert manager.informer(CONFIG_MAPS, Object) is not first
        assert first.by("x", "y") == ()


@virtually
async def test_concurrency_raises_the_workers_of_a_controller_and_never_lowers_them() -> None:
    """A chart made for KubeRay passes its default of 1 without meaning anything by it."""

    async def nothing(_key: Key) -> Done | Retry:
        return Done()

    async with virtual_plane() as plane:
        manager = Manager(plane.client, plane.clock, Random(1), concurrency=16)
        few, many = (Controller(f"c{workers}", nothing, (), workers) for workers in (8, 64))
        manager.add(few)
        manager.add(many)
        assert (few.workers, many.workers) == (16, 64)


@virtually
async def test_the_metrics_of_a_queue_say_how_many_may_run_and_how_many_wait_for_a_timer() -> None:
    async def nothing(_key: Key) -> Done | Retry:
        return Done()

    async with virtual_plane() as plane:
        manager = a_manager(plane)
        toy = Controller("toy", nothing, (), workers=8)
        manager.add(toy)
        for name in ("a", "b", "c"):
            toy.queue.add_after(Key("default", name), 60)
        lines = manager.registry.render().splitlines()
        assert 'controller_runtime_max_concurrent_reconciles{controller="toy"} 8.0' in lines
        assert 'manta_queue_delayed{controller="toy"} 3.0' in lines


@virtually
async def test_a_service_that_ends_ends_the_run() -> None:
    async with virtual_plane() as plane:
        manager = a_manager(plane)

        async def short() -> None:
            await asyncio.sleep(5)

        manager.add_service("short", short)
        with pytest.raises(TaskEnded, match="short"):
            await manager.run()


@virtually
async def test_a_service_that_breaks_ends_the_run_with_its_error() -> None:
    async with virtual_plane() as plane:
        manager = a_manager(plane)

        async def broken() -> None:
            await asyncio.sleep(5)
            raise ZeroDivisionError

        manager.add_service("broken", broken)
        with pytest.raises(ZeroDivisionError):
            await manager.run()


@virtually
async def test_a_round_that_raises_is_tried_again_and_ends_nothing() -> None:
    async with virtual_plane() as plane:
        manager = a_manager(plane)
        maps = manager.informer(CONFIG_MAPS, Object)
        tries: list[float] = []

        async def stumble(key: Key) -> Done | Retry:
            tries.append(plane.clock.monotonic())
            if len(tries) < 4:
                raise ZeroDivisionError
            return Done()

        manager.add(
            Controller("stumbling", stumble, [Watch(maps, lambda _o, _n: (Key("default", "x"),))])
        )
        async with running(manager.run()):
            await _put(plane, "x")
            await asyncio.sleep(30)
        assert len(tries) == 4
        assert 'result="error"} 3' in manager.registry.render()


@virtually
async def test_stopping_lets_running_rounds_finish_and_starts_no_other() -> None:
    async with virtual_plane() as plane:
        manager = a_manager(plane)
        maps = manager.informer(CONFIG_MAPS, Object)
        started: list[Key] = []
        finished: list[Key] = []

        async def slowly(key: Key) -> Done | Retry:
            started.append(key)
            await asyncio.sleep(5)
            finished.append(key)
            return Done()

        manager.add(Controller("slow", slowly, [Watch(maps, own_key)], workers=1))
        run = asyncio.create_task(manager.run())
        await _put(plane, "a")
        await _put(plane, "b")
        await until(lambda: started)
        manager.stop()
        await asyncio.wait_for(run, 10)
        assert started == finished
        assert len(started) == 1


@virtually
async def test_stopping_before_the_caches_are_filled_does_not_hang() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        faults.go_down()
        manager = Manager(Client(faults), plane.clock, Random(1))
        maps = manager.informer(CONFIG_MAPS, Object)

        async def never(key: Key) -> Done | Retry:
            raise AssertionError

        manager.add(Controller("never", never, [Watch(maps, own_key)]))
        run = asyncio.create_task(manager.run())
        await asyncio.sleep(60)
        assert not manager.ready
        assert manager.watch_errors
        manager.stop()
        await asyncio.wait_for(run, 60)


@virtually
async def test_one_busy_key_does_not_hold_up_another() -> None:
    async with virtual_plane() as plane:
        manager = a_manager(plane)
        maps = manager.informer(CONFIG_MAPS, Object)
        seen: dict[str, float] = {}

        async def work(key: Key) -> Done | Retry:
            seen[key.name] = plane.clock.monotonic()
            await asyncio.sleep(600 if key.name == "busy" else 0)
            return Done()

        manager.add(Controller("work", work, [Watch(maps, own_key)], workers=2))
        async with running(manager.run()):
            await _put(plane, "busy")
            await until(lambda: "busy" in seen)
            await _put(plane, "quick")
            await until(lambda: "quick" in seen, seconds=1)


async def _put(plane: MemoryPlane, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    await plane.client.create(CONFIG_MAPS, "default", body)


class Replica:
    """A whole operator with its own election."""

    def __init__(self, plane: MemoryPlane, name: str) -> None:
        self.faults: FaultTransport = faulty(plane)
        self.gate = WriteGate(plane.clock)
        self.leadership = Leadership()
        client = Client(GatedTransport(self.faults, self.gate), rng=Random(name))
        self.manager = Manager(client, plane.clock, Random(name), gate=self.gate)
        build(self.manager, Settings())
        election = Election(
            plane.clock,
            Random(name),
            self.gate,
            lease=Key("kube-system", "lease"),
            identity=name,
            on_change=self.leadership.change,
        )
        striver = Client(self.faults, timeout=5)
        self.manager.add_service("election", lambda: election.run(striver))

    async def run(self) -> None:
        await self.manager.run(self.leadership)

    def wrote(self) -> int:
        return len(self.faults.accepted_writes("/rayjobs"))


@virtually
async def test_two_operators_that_lose_and_win_the_lease_serve_every_tick_once() -> None:
    async with virtual_plane(cron_crds()) as plane:
        one, two = Replica(plane, "one"), Replica(plane, "two")
        await plane.client.create(RAY_CRON_JOBS, NAMESPACE, ray_cron_job())
        async with running(one.run(), two.run()):
            for _ in range(8):
                await asyncio.sleep(100)
                leader = one if one.gate.remaining else two
                leader.faults.fail_before(touches(LEASES), times=None)
                await asyncio.sleep(50)
                leader.faults._rules.clear()
        assert len(await children(plane)) == 20
        assert one.wrote() + two.wrote() == 20
        assert one.wrote()
        assert two.wrote()


def created(*replicas: Replica) -> list[str]:
    writes = [one for replica in replicas for one in replica.faults.accepted_writes("/rayjobs")]
    bodies = [json.loads(one.body) for one in writes if one.method == "POST" and one.body]
    return [one["metadata"]["name"] for one in bodies]


@virtually
async def test_a_new_leader_does_not_begin_on_a_cache_older_than_the_old_ones_last_writes() -> None:
    """Its watch lags: it does not know that the tick was served, nor can it see the child."""
    async with virtual_plane(cron_crds()) as plane:
        one, two = Replica(plane, "one"), Replica(plane, "two")
        two.faults.delay_watch(RAY_CRON_JOBS, 90)
        cron = ray_cron_job(successfulJobsHistoryLimit=0)
        await plane.client.create(RAY_CRON_JOBS, NAMESPACE, cron)
        leader = asyncio.create_task(one.run())
        await asyncio.sleep(1)
        async with running(two.run()):
            for minute in range(1, 5):
                await asyncio.sleep(60 * minute + 1 - plane.clock.monotonic())
                for job in await children(plane):
                    await finish(plane, job["metadata"]["name"])
            await asyncio.sleep(3)
            assert (len(created(one)), await children(plane)) == (4, [])
            leader.cancel()
            await asyncio.gather(leader, return_exceptions=True)
            await asyncio.sleep(30)
            assert two.gate.remaining
            assert created(two) == []
            await asyncio.sleep(60)
            assert len(created(two)) == 1  # the next tick


@virtually
async def test_a_type_that_was_uninstalled_does_not_keep_a_new_leader_from_its_work() -> None:
    """S1: the Gateway API is watched on demand, and may go away. The operator waited for it for ever."""
    async with virtual_plane(GATEWAY_CRDS) as plane:
        manager = a_manager(plane)
        gateways = manager.informer(GATEWAYS, Object, on_demand=True)
        maps = manager.informer(CONFIG_MAPS, Object)
        reconciled: list[Key] = []

        async def note(key: Key) -> Done | Retry:
            reconciled.append(key)
            return Done()

        watches = (Watch(maps, own_key), Watch(gateways, own_key))
        manager.add(Controller("maps", note, watches))
        leadership = Leadership()
        async with running(manager.run(leadership)):
            gateways.activate()
            await until(lambda: gateways.has_synced)
            for one in GATEWAY_CRDS:
                key = Key("", one["metadata"]["name"])
                await plane.client.delete(CUSTOM_RESOURCE_DEFINITIONS, key)
            await asyncio.sleep(10)
            leadership.change(leading=True)
            await _put(plane, "x")
            await asyncio.sleep(60)
        assert Key("default", "x") in reconciled


@virtually
async def test_who_leads_again_reconciles_everything_again() -> None:
    """What controllers remembered ends with a term, as the queries of dashboards: nothing in the caches changes."""
    async with virtual_plane() as plane:
        manager = a_manager(plane)
        maps = manager.informer(CONFIG_MAPS, Object)
        reconciled: list[Key] = []

        async def note(key: Key) -> Done | Retry:
            reconciled.append(key)
            return Done()

        manager.add(Controller("maps", note, (Watch(maps, own_key),)))
        await _put(plane, "x")
        leadership = Leadership()
        async with running(manager.run(leadership)):
            for term in (1, 2):
                leadership.change(leading=True)
                await asyncio.sleep(10)
                assert reconciled.count(Key("default", "x")) == term
                leadership.change(leading=False)
                await asyncio.sleep(10)
