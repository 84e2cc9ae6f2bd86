"""The built-in controllers under faults: lost replies, late watches, sudden death.

Whatever happens, a Job counts every Pod once, a ReplicaSet has no Pod too many at the end, and
nothing is collected that has an owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.resources import CONFIG_MAPS, DEPLOYMENTS, JOBS, PODS
from manta.kube.client import Client
from manta.kube.transport import Request
from manta.localplane.controllers import ControllerOptions, built_in_controllers
from manta.localplane.fakenodes.controller import FakeNodes
from manta.localplane.fakenodes.options import FakeNodeOptions
from support.fakenodes import FakeCluster, a_job_manifest
from support.faults import FaultTransport, is_write
from support.plane import MemoryPlane
from support.virtual import faulty, running, virtual_plane, virtually


@asynccontextmanager
async def controllers(plane: MemoryPlane, transport: FaultTransport) -> AsyncIterator[FakeCluster]:
    """Controllers and fake nodes whose every request goes through the faulty transport."""
    settings = ControllerOptions(root_ca="PEM", random=Random(1))
    manager = built_in_controllers(Client(transport), plane.clock, settings)
    nodes = FakeNodes(manager, FakeNodeOptions())
    async with running(manager.run()):
        yield FakeCluster(plane, manager, nodes)


async def put_workload(client: Client) -> None:
    """A Job with three Pods, a Deployment with two, and an owner with a child."""
    await client.create(JOBS, "default", a_job_manifest("j", completions=3, parallelism=2))
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    await client.create(DEPLOYMENTS, "default", {"metadata": {"name": "d"}, "spec": spec})
    owner = await client.create(CONFIG_MAPS, "default", {"metadata": {"name": "owner"}})
    for name, uid in (("kept", owner.metadata.uid), ("doomed", "no-such-uid")):
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        meta = {"name": name, "ownerReferences": [ref]}
        await client.create(CONFIG_MAPS, "default", {"metadata": meta})


async def is_settled(cluster: FakeCluster) -> bool:
    deployment: dict[str, Any] = await cluster.get(DEPLOYMENTS, "d") or {}
    available = (deployment.get("status") or {}).get("availableReplicas")
    doomed = await cluster.get(CONFIG_MAPS, "doomed")
    return bool(await cluster.is_true(JOBS, "j", "Complete") and available == 2 and not doomed)


async def check(cluster: FakeCluster) -> None:
    """The end is the same as if nothing had happened."""
    job = await cluster.get(JOBS, "j")
    assert job is not None
    assert (job["status"]["succeeded"], job["status"].get("failed")) == (3, None)
    assert len(await cluster.pods("job-name=j")) == 3
    assert len(await cluster.pods("app=d")) == 2
    assert await cluster.get(CONFIG_MAPS, "kept") is not None


@pytest.mark.parametrize("writes", range(1, 60, 3))
def test_controllers_that_die_after_any_write_go_on_where_they_were(writes: int) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane() as plane:
            await put_workload(plane.client)
            dying = faulty(plane)
            dead = asyncio.Event()
            dying.kill_after_writes(writes, dead.set)
            async with controllers(plane, dying), asyncio.timeout(60):
                await dead.wait()
            async with controllers(plane, faulty(plane)) as cluster:
                await cluster.until(lambda: is_settled(cluster))
                await asyncio.sleep(60)
                await check(cluster)

    story()


@pytest.mark.parametrize("seed", range(6))
def test_lost_replies_and_refusals_change_nothing_in_the_end(seed: int) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane() as plane:
            chance = Random(seed)

            def now_and_then(request: Request) -> bool:
                return is_write(request) and chance.random() < 0.1

            transport = faulty(plane)
            transport.fail_after(now_and_then, times=None)
            transport.fail_before(now_and_then, times=None)
            transport.conflict(now_and_then, times=None)
            async with controllers(plane, transport) as cluster:
                await put_workload(plane.client)
                await cluster.until(lambda: is_settled(cluster), seconds=1200)
                await asyncio.sleep(60)
                await check(cluster)

    story()


@virtually
async def test_a_late_watch_does_not_make_pods_twice() -> None:
    async with virtual_plane() as plane:
        transport = faulty(plane)
        transport.delay_watch(PODS, seconds=8)
        async with controllers(plane, transport) as cluster:
            await put_workload(plane.client)
            await cluster.until(lambda: is_settled(cluster), seconds=600)
            await asyncio.sleep(60)
            await check(cluster)


@virtually
async def test_a_server_that_goes_away_is_taken_up_again() -> None:
    async with virtual_plane() as plane:
        transport = faulty(plane)
        async with controllers(plane, transport) as cluster:
            await asyncio.sleep(2)
            transport.go_down()
            await put_workload(plane.client)
            # Not so long that the node counts as lost, and its Pods as not ready: that is another story.
            await asyncio.sleep(10)
            transport.come_back()
            await cluster.until(lambda: is_settled(cluster), seconds=600)
            await check(cluster)
            assert await plane.client.delete(CONFIG_MAPS, Key("default", "owner"))
            await cluster.until_gone(CONFIG_MAPS, "kept")
