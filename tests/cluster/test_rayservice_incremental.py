"""Incremental upgrades on the embedded server: capacity and traffic walk over in steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from manta.api.gateway import HTTPRoute
from manta.api.meta import Key
from manta.api.ray.resources import RAY_SERVICES
from manta.api.ray.service import RayService
from manta.api.resources import HTTP_ROUTES
from support.raycluster import NAMESPACE
from support.rayservice import (
    GATEWAY_CRDS,
    World,
    a_world,
    accept_routes,
    incremental,
    is_ready,
    operator,
    scaled_config,
    serves_from,
)
from support.virtual import running, virtually

NEXT = "rayproject/ray:2.61.0"


@asynccontextmanager
async def a_split_world(**ray: Any) -> AsyncIterator[World]:
    async with a_world(crds=GATEWAY_CRDS, **ray) as world, running(accept_routes(world)):
        yield world


async def a_first_cluster(world: World) -> str:
    await world.create(upgradeStrategy=incremental(), rayClusterConfig=scaled_config())
    service = await world.until(is_ready)
    return service.status.active_service_status.ray_cluster_name


async def weights(world: World) -> dict[str, int]:
    route = await world.client.get(HTTP_ROUTES, Key(NAMESPACE, "demo-httproute"), into=HTTPRoute)
    refs = route.spec.rules[0].backend_refs
    return {ref.name.removesuffix("-serve-svc"): ref.weight for ref in refs}


async def follow(world: World, moments: list[tuple[int, int, int, int]]) -> None:
    """Write down every standing: capacity and traffic of the old, then of the new cluster."""
    while True:
        async for event in world.client.watch(RAY_SERVICES, into=RayService):
            status = event.object.status
            active, pending = status.active_service_status, status.pending_service_status
            moment = (
                active.target_capacity or 0,
                active.traffic_routed_percent or 0,
                pending.target_capacity or 0,
                pending.traffic_routed_percent or 0,
            )
            if pending.ray_cluster_name and moment not in moments[-1:]:
                moments.append(moment)


@virtually
async def test_capacity_and_traffic_walk_over_in_the_documented_steps() -> None:
    async with a_split_world() as world, operator(world):
        old = await a_first_cluster(world)
        moments: list[tuple[int, int, int, int]] = []
        async with running(follow(world, moments)):
            await world.edit(rayClusterConfig=scaled_config(NEXT))
            service = await world.until(serves_from(other_than=old), 600)
        assert moments == [
            (100, 100, 0, 0),
            (100, 100, 50, 0),
            (100, 75, 50, 25),
            (100, 50, 50, 50),
            (50, 50, 50, 50),
            (50, 50, 100, 50),
            (50, 25, 100, 75),
            (50, 0, 100, 100),
            (0, 0, 100, 100),
        ]
        new = service.status.active_service_status.ray_cluster_name
        assert [one.get("target_capacity") for one in world.head(old).puts] == [100, 50, 0]
        assert [one.get("target_capacity") for one in world.head(new).puts][-2:] == [50, 100]
        await asyncio.sleep(5)
        assert await weights(world) == {new: 100}
        await asyncio.sleep(90)
        assert await world.cluster_names() == {new}
