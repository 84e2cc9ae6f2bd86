"""Incremental upgrades on the embedded server: capacity and traffic walk over in steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from manta.api.gateway import HTTPRoute
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.api.ray.service import RayService
from manta.api.resources import CUSTOM_RESOURCE_DEFINITIONS, GATEWAYS, HTTP_ROUTES, PODS
from manta.kube.client import Client
from support.raycluster import NAMESPACE
from support.rayservice import (
    GATEWAY_CRDS,
    Check,
    World,
    a_world,
    accept_routes,
    condition,
    is_ready,
    message,
    operator,
    serves_from,
    until_killed_or,
    watched,
)
from support.rayservice_objects import incremental, scaled_config
from support.virtual import faulty, running, virtually

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
            if event.type not in ("ADDED", "MODIFIED"):
                continue
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


def has_traffic(percent: int) -> Check:
    """The pending cluster has come so far."""
    return lambda one: one.status.pending_service_status.traffic_routed_percent == percent


def has_no_pending(service: RayService) -> bool:
    return condition(service, "UpgradeInProgress") == ("False", "NoPendingCluster")


@virtually
async def test_an_upgrade_that_is_taken_back_half_way_walks_home() -> None:
    async with a_split_world() as world, operator(world):
        old = await a_first_cluster(world)
        await world.edit(rayClusterConfig=scaled_config(NEXT))
        await world.until(has_traffic(50))
        moments: list[tuple[int, int, int, int]] = []
        async with running(follow(world, moments)):
            await world.edit(rayClusterConfig=scaled_config())
            back = ("True", "DesiredClusterSpecChanged")
            await world.until(lambda one: condition(one, "RollbackInProgress") == back)
            service = await world.until(has_no_pending)
        assert moments[-3:] == [(100, 75, 50, 25), (100, 100, 50, 0), (100, 100, 0, 0)]
        assert condition(service, "RollbackInProgress") == ("", "")
        assert service.status.active_service_status.ray_cluster_name == old
        await asyncio.sleep(100)
        assert await world.cluster_names() == {old}
        assert await weights(world) == {old: 100}
        assert world.head(old).puts[-1]["target_capacity"] == 100


@virtually
async def test_a_rollback_that_is_taken_back_goes_on_with_the_upgrade() -> None:
    async with a_split_world() as world, operator(world):
        old = await a_first_cluster(world)
        await world.edit(rayClusterConfig=scaled_config(NEXT))
        service = await world.until(has_traffic(50))
        pending = service.status.pending_service_status.ray_cluster_name
        await world.edit(rayClusterConfig=scaled_config())
        await world.until(has_traffic(25))
        await world.edit(rayClusterConfig=scaled_config(NEXT))
        service = await world.until(serves_from(other_than=old), 600)
        assert service.status.active_service_status.ray_cluster_name == pending


@virtually
async def test_a_third_spec_walks_home_first_and_then_begins_anew() -> None:
    async with a_split_world() as world, watched(world, most_clusters=3), operator(world):
        old = await a_first_cluster(world)
        await world.edit(rayClusterConfig=scaled_config(NEXT))
        service = await world.until(has_traffic(50))
        second = service.status.pending_service_status.ray_cluster_name
        await world.edit(rayClusterConfig=scaled_config("rayproject/ray:2.62.0"))
        await world.until(lambda one: condition(one, "RollbackInProgress")[0] == "True")
        service = await world.until(serves_from(other_than=old), 900)
        assert service.status.active_service_status.ray_cluster_name not in (old, second)


@virtually
async def test_a_rollback_does_not_wait_for_a_pending_cluster_that_is_dead() -> None:
    async with a_split_world() as world, operator(world):
        old = await a_first_cluster(world)
        await world.edit(rayClusterConfig=scaled_config(NEXT))
        service = await world.until(has_traffic(75))
        pending = service.status.pending_service_status.ray_cluster_name
        world.kubelet.script = lambda pod: {"phase": "Pending"}
        (head,) = await world.pods(f"ray.io/cluster={pending},ray.io/node-type=head")
        await world.client.delete(PODS, Key(NAMESPACE, head["metadata"]["name"]))
        await world.edit(rayClusterConfig=scaled_config())
        await world.until(has_no_pending, 600)
        assert await weights(world) == {old: 100}


@virtually
async def test_traffic_never_exceeds_the_capacity_behind_it() -> None:
    async with a_split_world() as world, operator(world):
        old = await a_first_cluster(world)
        moments: list[tuple[int, int, int, int]] = []
        async with running(follow(world, moments)):
            await world.edit(
                rayClusterConfig=scaled_config(NEXT), upgradeStrategy=incremental(7, 30, 3)
            )
            await world.until(serves_from(other_than=old), 900)
        for old_capacity, old_traffic, capacity, traffic in moments:
            assert traffic <= capacity
            assert old_traffic + traffic == 100
            assert 100 <= old_capacity + capacity <= 130 or (capacity, traffic) == (100, 100)


@virtually
async def test_a_pending_cluster_that_does_not_run_gets_no_traffic() -> None:
    async with a_split_world() as world, operator(world):
        old = await a_first_cluster(world)
        world.ray.deploy_after = None
        await world.edit(rayClusterConfig=scaled_config(NEXT))
        await world.until(lambda one: one.status.pending_service_status.target_capacity == 50)
        await asyncio.sleep(120)
        assert set((await weights(world)).values()) == {100, 0}
        service = await world.service()
        told = message(service, "UpgradeInProgress")
        assert f"{old}: 100 % of the traffic, 100 % of the capacity" in told
        assert 'application "app" is DEPLOYING' in told


@virtually
async def test_a_gateway_that_is_not_programmed_is_waited_for_and_named() -> None:
    async with a_world(crds=GATEWAY_CRDS) as world, operator(world):
        old = await a_first_cluster(world)
        await world.edit(rayClusterConfig=scaled_config(NEXT))
        text = "Gateway demo-gateway is not Accepted yet"
        await world.until(lambda one: text in message(one, "UpgradeInProgress"))
        async with running(accept_routes(world)):
            await world.until(serves_from(other_than=old), 600)


@virtually
async def test_a_cluster_without_the_gateway_api_is_told_so() -> None:
    async with a_world() as world, operator(world):
        await world.create(upgradeStrategy=incremental(), rayClusterConfig=scaled_config())
        text = "the Gateway API (gateway.networking.k8s.io/v1) is not installed"
        service = await world.until(lambda one: text in message(one, "UpgradeInProgress"))
        old = service.status.active_service_status.ray_cluster_name
        # Without a Gateway no request reaches it, although its Pods would take some.
        await world.until(lambda one: one.status.num_serve_endpoints > 0)
        assert text in message(await world.service(), "Ready")
        await world.edit(rayClusterConfig=scaled_config(NEXT))
        await asyncio.sleep(60)
        service = await world.service()
        assert text in message(service, "UpgradeInProgress")
        assert service.status.active_service_status.ray_cluster_name == old
        # The user takes the other way.
        await world.edit(upgradeStrategy={"type": "NewCluster", "clusterUpgradeOptions": None})
        service = await world.until(serves_from(other_than=old))
        assert await world.selected() == service.status.active_service_status.ray_cluster_name


@virtually
async def test_a_gateway_api_that_was_uninstalled_is_named_and_stops_no_other_work() -> None:
    """S1: Gateways come from a watch, whose cache would show them for ever."""
    async with a_world(crds=GATEWAY_CRDS) as world, operator(world):
        async with running(accept_routes(world)):
            await a_first_cluster(world)
        for one in GATEWAY_CRDS:
            key = Key("", one["metadata"]["name"])
            await world.client.delete(CUSTOM_RESOURCE_DEFINITIONS, key)
        await asyncio.sleep(60)
        await world.edit(rayClusterConfig=scaled_config(NEXT))
        text = "the Gateway API (gateway.networking.k8s.io/v1) is not installed"
        await world.until(lambda one: text in message(one, "UpgradeInProgress"))


@virtually
async def test_back_to_new_cluster_closes_the_gateway_once_the_service_stands() -> None:
    async with a_split_world() as world, operator(world):
        cluster = await a_first_cluster(world)
        await world.edit(upgradeStrategy={"type": "NewCluster", "clusterUpgradeOptions": None})
        await asyncio.sleep(20)
        assert await world.selected() == cluster
        for resource in (GATEWAYS, HTTP_ROUTES):
            assert (await world.client.list(resource, NAMESPACE)).items == []
        status = (await world.service()).status
        assert status.active_service_status.target_capacity is None
        assert "target_capacity" not in world.head(cluster).puts[-1]


@virtually
async def test_a_stable_service_from_before_follows_the_traffic() -> None:
    async with a_split_world() as world, watched(world) as oracle, operator(world):
        await world.create(rayClusterConfig=scaled_config())
        old = (await world.until(is_ready)).status.active_service_status.ray_cluster_name
        await world.edit(rayClusterConfig=scaled_config(NEXT), upgradeStrategy=incremental())
        service = await world.until(serves_from(other_than=old), 600)
        new = service.status.active_service_status.ray_cluster_name
        assert oracle.served_by == [old, new]


@virtually
@pytest.mark.parametrize("share", [0, 25, 50, 75, 100])
async def test_c54_suspend_at_any_step_of_a_walk_takes_gateway_and_route_too(share: int) -> None:
    async with a_split_world() as world, operator(world):
        await a_first_cluster(world)
        await world.edit(rayClusterConfig=scaled_config(NEXT))
        await world.until(has_traffic(share))
        await world.edit(suspend=True)
        await world.until(lambda one: condition(one, "Suspended")[0] == "True")
        for resource in (GATEWAYS, HTTP_ROUTES):
            assert (await world.client.list(resource, NAMESPACE)).items == []
        assert await world.clusters() == []
        await world.edit(suspend=False)
        await world.until(is_ready)


@virtually
async def test_the_active_cluster_is_lost_in_mid_walk() -> None:
    async with a_split_world() as world, operator(world):
        old = await a_first_cluster(world)
        await world.edit(rayClusterConfig=scaled_config(NEXT))
        service = await world.until(has_traffic(25))
        pending = service.status.pending_service_status.ray_cluster_name
        await world.client.delete(RAY_CLUSTERS, Key(NAMESPACE, old))
        service = await world.until(serves_from(other_than=old), 60)
        assert service.status.active_service_status.ray_cluster_name == pending
        await asyncio.sleep(5)
        assert await weights(world) == {pending: 100}


@virtually
async def test_at_rest_nothing_is_written() -> None:
    async with a_split_world() as world:
        faults = faulty(world.plane)
        async with operator(world, Client(faults)):
            old = await a_first_cluster(world)
            await world.edit(rayClusterConfig=scaled_config(NEXT))
            await world.until(serves_from(other_than=old), 600)
            await asyncio.sleep(300)
            writes = len(faults.accepted_writes())
            await asyncio.sleep(900)
            assert len(faults.accepted_writes()) == writes


@pytest.mark.timeout(600)
@virtually
async def test_killed_after_any_write_the_walk_goes_on() -> None:
    async with a_split_world() as world:
        was_killed, writes = True, 0
        while was_killed:
            writes += 1
            world.name = f"demo{writes}"
            was_killed = await _walk_and_kill(world, writes)
        assert writes > 25


async def _walk_and_kill(world: World, writes: int) -> bool:
    moments: list[tuple[int, int, int, int]] = []
    async with operator(world):
        old = await a_first_cluster(world)
        await world.edit(rayClusterConfig=scaled_config(NEXT))
    faults = faulty(world.plane)
    async with running(follow(world, moments)):
        async with operator(world, Client(faults)):
            was_killed = await until_killed_or(faults, writes, 150)
        async with operator(world):
            service = await world.until(serves_from(other_than=old), 600)
    new = service.status.active_service_status.ray_cluster_name
    for old_capacity, old_traffic, capacity, traffic in moments:
        assert traffic <= capacity, moments
        assert old_capacity + capacity >= 100, moments
        assert old_traffic + traffic == 100 or traffic == 0, moments
    assert max(capacity for _, _, capacity, _ in moments) == 100
    async with operator(world):
        await asyncio.sleep(80)
        assert await world.cluster_names() == {new}
        await world.client.delete(RAY_SERVICES, world.key)
        await world.until_gone()
    return was_killed
