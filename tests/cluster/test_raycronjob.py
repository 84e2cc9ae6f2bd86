"""RayCronJobs on the embedded server, under virtual time and faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CRON_JOBS, RAY_JOBS
from manta.api.resources import EVENTS
from manta.api.times import parse_time
from manta.controllers.raycronjob.preview import preview
from manta.kube.transport import Request
from manta.rules.settings import Settings
from manta.runtime.manager import Manager
from support.faults import FaultTransport, is_write, touches, watches
from support.plane import MemoryPlane
from support.raycronjob import (
    NAMESPACE,
    children,
    cron_crds,
    finish,
    keep_killing,
    operating,
    operator,
    ray_cron_job,
)
from support.virtual import faulty, running, virtual_plane, virtually
from support.virtual_time import EPOCH

CRON = Key(NAMESPACE, "tick")
MINUTE = 60.0


async def create(plane: MemoryPlane, **spec: Any) -> None:
    await plane.client.create(RAY_CRON_JOBS, NAMESPACE, ray_cron_job(**spec))


async def ticks(plane: MemoryPlane) -> list[datetime]:
    return [
        parse_time(one["metadata"]["annotations"]["ray.io/cronjob-scheduled-timestamp"])
        for one in await children(plane)
    ]


async def last_schedule_time(plane: MemoryPlane) -> str | None:
    cron = await plane.client.get(RAY_CRON_JOBS, CRON)
    value: str | None = cron.get("status", {}).get("lastScheduleTime")
    return value


async def reasons(plane: MemoryPlane) -> list[str]:
    return [one["reason"] for one in (await plane.client.list(EVENTS, NAMESPACE)).items]


def minutes(count: int, first: int = 1) -> list[datetime]:
    return [EPOCH + timedelta(minutes=one) for one in range(first, first + count)]


@virtually
async def test_every_minute_one_ray_job_with_the_names_and_marks_of_kuberay() -> None:
    async with virtual_plane(cron_crds()) as plane, operating(plane, faulty(plane)):
        await create(plane)
        await asyncio.sleep(3 * MINUTE + 1)
        jobs = await children(plane)
        assert await ticks(plane) == minutes(3)
        first = jobs[0]
        epoch_minutes = int(EPOCH.timestamp()) // 60
        assert first["metadata"]["name"] == f"tick-{epoch_minutes + 1}"
        assert first["metadata"]["labels"] == {"ray.io/cronjob-name": "tick"}
        owner = first["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("RayCronJob", "tick", True)
        assert first["spec"]["entrypoint"] == "python main.py"
        assert await last_schedule_time(plane) == "2026-01-01T00:03:00Z"
        assert "CreatedRayJob" in await reasons(plane)


@virtually
async def test_one_ray_job_a_minute_while_the_operator_is_killed_after_every_single_write() -> None:
    chance = Random(3)
    async with virtual_plane(cron_crds()) as plane:
        await create(plane)
        killed = 0

        def make(kill: Callable[[], object]) -> Manager:
            nonlocal killed
            killed += 1
            faults = faulty(plane)
            faults.kill_after_writes(1, kill)
            return operator(plane, faults)

        async with running(keep_killing(make, lambda: chance.uniform(0, 5))):
            await asyncio.sleep(60 * MINUTE + 30)
        assert await ticks(plane) == minutes(60)
        assert await last_schedule_time(plane) == "2026-01-01T01:00:00Z"
        assert killed > 60


@pytest.mark.parametrize("write", range(1, 10))
def test_a_kill_after_the_nth_write_changes_nothing_in_the_end(write: int) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane(cron_crds()) as plane:
            await create(plane)
            dead = asyncio.Event()
            faults = faulty(plane)
            faults.kill_after_writes(write, dead.set)
            async with operating(plane, faults):
                await dead.wait()
            async with operating(plane, faulty(plane)):
                await asyncio.sleep((10 * MINUTE + 1) - plane.clock.monotonic())
            assert await ticks(plane) == minutes(10)

    story()


def _trouble(name: str) -> Callable[[FaultTransport], None]:
    def anything(request: Request) -> bool:
        return is_write(request)

    table: dict[str, Callable[[FaultTransport], None]] = {
        "stale watch": lambda faults: faults.delay_watch(RAY_CRON_JOBS, 90),
        "stale watch of children": lambda faults: faults.delay_watch(RAY_JOBS, 90),
        "dropped events": lambda faults: faults.drop_event(RAY_CRON_JOBS, times=2),
        "lost replies": lambda faults: faults.fail_after(anything, times=7),
        "lost reply to every creation": lambda faults: faults.fail_after(
            touches(RAY_JOBS, "POST"), times=None
        ),
        "conflicts": lambda faults: faults.conflict(touches(RAY_CRON_JOBS, "PATCH"), times=5),
        "expired watches": lambda faults: faults.expire(watches(RAY_CRON_JOBS), times=3),
        "throttled": lambda faults: faults.throttle(anything, times=9),
        "server errors": lambda faults: faults.fail_before(anything, times=9, code=500),
        "denied for a while": lambda faults: faults.deny(anything, times=6),
    }
    return table[name]


TROUBLES = (
    "stale watch",
    "stale watch of children",
    "dropped events",
    "lost replies",
    "lost reply to every creation",
    "conflicts",
    "expired watches",
    "throttled",
    "server errors",
    "denied for a while",
)


@pytest.mark.parametrize("name", TROUBLES)
def test_trouble_costs_no_tick_and_doubles_none(name: str) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane(cron_crds()) as plane:
            faults = faulty(plane)
            _trouble(name)(faults)
            async with operating(plane, faults):
                await asyncio.sleep(1)
                await create(plane)
                await asyncio.sleep(15 * MINUTE)
            made = [one for one in faults.accepted_writes("/rayjobs") if one.method == "POST"]
            assert await ticks(plane) == minutes(15)
            assert len(made) == 15

    story()


@virtually
async def test_after_a_downtime_only_the_latest_missed_tick_is_caught_up() -> None:
    async with virtual_plane(cron_crds()) as plane:
        await create(plane)
        await asyncio.sleep(60 * MINUTE + 1)
        async with operating(plane, faulty(plane)):
            await asyncio.sleep(MINUTE)
            assert await ticks(plane) == minutes(2, first=60)


@virtually
async def test_kuberays_way_replays_every_missed_tick() -> None:
    async with virtual_plane(cron_crds()) as plane:
        await create(plane)
        await asyncio.sleep(10 * MINUTE + 1)
        async with operating(plane, faulty(plane), Settings(cron_replay_missed=True)):
            await asyncio.sleep(20)
            assert await ticks(plane) == minutes(10)


@virtually
async def test_a_suspended_one_does_nothing_and_then_catches_up_with_one() -> None:
    async with virtual_plane(cron_crds()) as plane:
        faults = faulty(plane)
        async with operating(plane, faults):
            await create(plane, suspend=True)
            await asyncio.sleep(10 * MINUTE + 1)
            assert await children(plane) == []
            assert await reasons(plane) == ["SuspendedRayCronJob"]
            assert len(faults.accepted_writes()) == 1
            await plane.client.patch(RAY_CRON_JOBS, CRON, {"spec": {"suspend": False}})
            await asyncio.sleep(MINUTE)
            assert await ticks(plane) == minutes(2, first=10)


@virtually
async def test_an_idle_one_asks_the_server_nothing() -> None:
    async with virtual_plane(cron_crds()) as plane:
        faults = faulty(plane)
        async with operating(plane, faults):
            await create(plane, schedule="0 0 1 1 *")
            await asyncio.sleep(MINUTE)
            faults.log.clear()
            await asyncio.sleep(3600)
            assert [one for one in faults.log if not one.watch] == []


@virtually
async def test_a_wrong_schedule_is_reported_and_correcting_it_is_enough() -> None:
    async with virtual_plane(cron_crds()) as plane, operating(plane, faulty(plane)):
        await create(plane, schedule="61 * * * *")
        await asyncio.sleep(2 * MINUTE)
        assert await children(plane) == []
        assert await reasons(plane) == ["InvalidRayCronJobSpec"]
        await plane.client.patch(RAY_CRON_JOBS, CRON, {"spec": {"schedule": "* * * * *"}})
        await asyncio.sleep(MINUTE - 1)  # at the full minute, the next tick may be before us
        assert await ticks(plane) == minutes(1, first=2)


@virtually
async def test_a_status_without_conditions_is_not_written_again_and_again() -> None:
    """KubeRay's CRD prunes them: the same version of the object gets one write at most."""
    crds = deepcopy(cron_crds())
    for crd in crds:
        if crd["spec"]["names"]["kind"] == RAY_CRON_JOBS.kind:
            for version in crd["spec"]["versions"]:
                schema = version["schema"]["openAPIV3Schema"]
                del schema["properties"]["status"]["properties"]["conditions"]
    async with virtual_plane(crds) as plane:
        faults = faulty(plane)
        async with operating(plane, faults):
            await create(plane)
            await asyncio.sleep(2 * MINUTE)
            await plane.client.patch(RAY_CRON_JOBS, CRON, {"spec": {"schedule": "61 * * * *"}})
            await asyncio.sleep(MINUTE)
            assert "InvalidRayCronJobSpec" in await reasons(plane)
            assert "conditions" not in (await plane.client.get(RAY_CRON_JOBS, CRON))["status"]
            faults.log.clear()
            for one in await children(plane):
                await finish(plane, one["metadata"]["name"])
                await asyncio.sleep(MINUTE)
            assert [one for one in faults.log if one.path.endswith("/status")] == []


@virtually
async def test_finished_ray_jobs_beyond_the_limits_are_deleted_oldest_first() -> None:
    settings = Settings(cron_successful_history=2, cron_failed_history=1)
    async with (
        virtual_plane(cron_crds()) as plane,
        operating(plane, faulty(plane), settings),
    ):
        await create(plane)
        for minute in range(1, 7):
            await asyncio.sleep(minute * MINUTE + 1 - plane.clock.monotonic())
            name = (await children(plane))[-1]["metadata"]["name"]
            await finish(plane, name, "FAILED" if minute in {2, 3} else "SUCCEEDED")
        await asyncio.sleep(10)
        assert await ticks(plane) == [*minutes(1, first=3), *minutes(2, first=5)]


@virtually
async def test_a_ray_job_of_another_owner_is_neither_used_nor_touched() -> None:
    async with virtual_plane(cron_crds()) as plane:
        name = f"tick-{int(EPOCH.timestamp()) // 60 + 1}"
        foreign = {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": name},
            "spec": {"entrypoint": "mine"},
        }
        await plane.client.create(RAY_JOBS, NAMESPACE, foreign)
        async with operating(plane, faulty(plane)):
            await create(plane)
            await asyncio.sleep(2 * MINUTE + 1)
        jobs = {one["metadata"]["name"]: one for one in await children(plane)}
        assert jobs[name]["spec"]["entrypoint"] == "mine"
        assert "ownerReferences" not in jobs[name]["metadata"]
        assert "FailedToCreateRayJob" in await reasons(plane)
        assert len(jobs) == 2  # the next tick went on as if nothing had happened


@virtually
async def test_a_server_gone_for_minutes_is_survived_without_a_tight_loop() -> None:
    async with virtual_plane(cron_crds()) as plane:
        faults = faulty(plane)
        async with operating(plane, faults):
            await create(plane)
            await asyncio.sleep(MINUTE + 1)
            faults.go_down()
            faults.log.clear()
            await asyncio.sleep(10 * MINUTE)
            assert len(faults.log) < 400
            faults.come_back()
            await asyncio.sleep(5 * MINUTE)
        served = await ticks(plane)
        assert served[0] == minutes(1)[0]
        assert served[-4:] == minutes(4, first=13)
        assert len(served) == len(set(served))


@virtually
async def test_fields_that_we_do_not_know_reach_the_ray_job() -> None:
    async with virtual_plane(cron_crds()) as plane, operating(plane, faulty(plane)):
        template = {
            "entrypoint": "python main.py",
            "clusterSelector": {"ray.io/cluster": "c"},
            "submitterPodTemplate": {
                "spec": {
                    "containers": [{"name": "c", "image": "i", "terminationMessagePath": "/odd"}]
                }
            },
        }
        await create(plane, jobTemplate=template)
        await asyncio.sleep(MINUTE + 1)
        (job,) = await children(plane)
        container = job["spec"]["submitterPodTemplate"]["spec"]["containers"][0]
        assert container["terminationMessagePath"] == "/odd"


@virtually
async def test_a_plan_names_what_an_edit_changes_and_nothing_for_a_new_one() -> None:
    async with virtual_plane(crds=cron_crds()) as plane:

        async def changes(**spec: Any) -> tuple[str, ...]:
            edited = ray_cron_job(**spec)
            found = await preview(plane.client, Settings(), plane.clock, CRON, edited)
            assert found is not None
            return found.changes

        assert await changes() == ()
        await create(plane)
        assert await changes() == ()
        assert await changes(schedule="0 * * * *") == ('spec.schedule: "* * * * *" -> "0 * * * *"',)
