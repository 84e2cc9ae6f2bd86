"""RayServices on the embedded server, under virtual time, with a Ray that can misbehave."""

from __future__ import annotations

import asyncio

from support.rayservice import (
    a_world,
    cluster_config,
    condition,
    is_ready,
    operator,
    serves_from,
)
from support.virtual import virtually


@virtually
async def test_a_service_comes_up_and_serves() -> None:
    async with a_world() as world, operator(world):
        await world.create()
        service = await world.until(is_ready)
        cluster = service.status.active_service_status.ray_cluster_name
        assert await world.selected() == await world.selected("demo-head-svc") == cluster
        assert len(world.head(cluster).puts) == 1
        assert service.status.num_serve_endpoints == 2
        assert service.status.service_status == "Running"
        assert condition(service, "UpgradeInProgress") == ("False", "NoPendingCluster")


@virtually
async def test_a_new_spec_moves_to_a_new_cluster_and_deletes_the_old_one_later() -> None:
    async with a_world() as world, operator(world):
        await world.create()
        old = (await world.until(is_ready)).status.active_service_status.ray_cluster_name
        await world.edit(rayClusterConfig=cluster_config("rayproject/ray:2.61.0"))
        service = await world.until(serves_from(other_than=old))
        new = service.status.active_service_status.ray_cluster_name
        assert await world.selected() == await world.selected("demo-head-svc") == new
        assert await world.cluster_names() == {old, new}
        await asyncio.sleep(70)
        assert await world.cluster_names() == {new}
