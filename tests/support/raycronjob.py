"""RayCronJobs for tests: objects, snapshots, and an operator that can be killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec

from manta.api.ray.cronjob import RayCronJob
from manta.api.ray.resources import RAY_CRON_JOBS, RAY_JOBS
from manta.api.times import format_time
from manta.controllers.raycronjob.controller import build
from manta.controllers.raycronjob.snapshot import ChildJob, CronSnapshot
from manta.kube.client import Client
from manta.kube.transport import Transport
from manta.rules.settings import Settings
from manta.rules.validation.cronjob import cronjob_violations
from manta.runtime.manager import Manager
from support.plane import MemoryPlane
from support.raycrds import ray_crds
from support.virtual import running

NAMESPACE = "default"
CREATED = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)

TEMPLATE: dict[str, Any] = {
    "entrypoint": "python main.py",
    "clusterSelector": {"ray.io/cluster": "c"},
}


def ray_cron_job(name: str = "tick", **spec: Any) -> dict[str, Any]:
    body = {"schedule": "* * * * *", "jobTemplate": TEMPLATE, **spec}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {key: value for key, value in body.items() if value is not None},
    }


def a_cron(
    *, last: datetime | None = None, meta: dict[str, Any] | None = None, **spec: Any
) -> RayCronJob:
    document = ray_cron_job(**spec)
    document["metadata"] |= {"uid": "cron-uid", "creationTimestamp": format_time(CREATED)}
    document["metadata"] |= meta or {}
    document["status"] = {"lastScheduleTime": format_time(last)} if last else {}
    return msgspec.json.decode(msgspec.json.encode(document), type=RayCronJob)


def a_child(tick: datetime, outcome: str = "", uid: str = "") -> ChildJob:
    """A RayJob of one tick; `outcome`: SUCCEEDED, FAILED, or '' while it runs."""
    minutes = int(tick.timestamp()) // 60
    status = {"jobStatus": outcome, "jobDeploymentStatus": "Complete"} if outcome else {}
    document = {
        "metadata": {
            "name": f"tick-{minutes}",
            "namespace": NAMESPACE,
            "uid": uid or f"child-{minutes}",
            "annotations": {"ray.io/cronjob-scheduled-timestamp": format_time(tick)},
        },
        "status": status,
    }
    return msgspec.convert(document, ChildJob)


def seen(
    now: datetime,
    cron: RayCronJob | None = None,
    *children: ChildJob,
    settings: Settings | None = None,
) -> CronSnapshot:
    cron, settings = cron or a_cron(), settings or Settings()
    return CronSnapshot(cron, children, now, settings, cronjob_violations(cron, settings))


def cron_crds() -> list[dict[str, Any]]:
    wanted = {RAY_CRON_JOBS.kind, RAY_JOBS.kind}
    return [crd for crd in ray_crds() if crd["spec"]["names"]["kind"] in wanted]


def operator(plane: MemoryPlane, transport: Transport, settings: Settings | None = None) -> Manager:
    manager = Manager(Client(transport, rng=Random(2)), plane.clock, Random(1))
    build(manager, settings or Settings())
    return manager


@asynccontextmanager
async def operating(
    plane: MemoryPlane, transport: Transport, settings: Settings | None = None
) -> AsyncIterator[Manager]:
    manager = operator(plane, transport, settings)
    async with running(manager.run()):
        yield manager


async def keep_killing(
    make: Callable[[Callable[[], object]], Manager], pause: Callable[[], float]
) -> int:
    """Run operators one after another; each calls the given function to be killed. For ever."""
    lives = 0
    while True:
        died = asyncio.Event()
        life = asyncio.create_task(make(died.set).run())
        try:
            await died.wait()
        finally:
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)
        lives += 1
        await asyncio.sleep(pause())


async def children(plane: MemoryPlane) -> list[dict[str, Any]]:
    listing = await plane.client.list(RAY_JOBS, NAMESPACE)
    return sorted(listing.items, key=lambda one: one["metadata"]["name"])


async def finish(plane: MemoryPlane, name: str, outcome: str = "SUCCEEDED") -> None:
    status = {"status": {"jobStatus": outcome, "jobDeploymentStatus": "Complete"}}
    from manta.api.meta import Key

    await plane.client.patch(RAY_JOBS, Key(NAMESPACE, name), status, subresource="status")
