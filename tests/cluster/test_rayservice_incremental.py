"""Incremental upgrades on the embedded server: capacity and traffic walk over in steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.api.ray.service import RayService
from manta.api.resources import CUSTOM_RESOURCE_DEFINITIONS, GATEWAYS, HTTP_ROUTES, PODS
from manta.kube.client import Client
from support.raycluster import NAMESPACE
from support.rayservice import (
    GATEWAY_CRDS,
    Check,
    Scenario,
    a_scenario,
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
async def a_split_scenario(**ray: Any) -> AsyncIterator[Scenario]:
    async with a_scenario(crds=GATEWAY_CRDS, **ray) as scenario, running(accept_routes(scenario)):
        yield scenario


async def a_first_cluster(scenario: Scenario) -> str:
    await scenario.create(upgradeStrategy=incremental(), rayClusterConfig=scaled_config())
    service = await scenario.until(is_ready)
    return service.status.active_service_status.ray_cluster_name


async def follow(scenario: Scenario, moments: list[tuple[int, int, int, int]]) -> None:
    """Write down every standing: capacity and traffic of the old, then of the new cluster."""
    while True:
        async for event in scenario.client.watch(RAY_SERVICES, into=RayService):
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
    async with a_split_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario)
        moments: list[tuple[int, int, int, int]] = []
        async with running(follow(scenario, moments)):
            await scenario.edit(rayClusterConfig=scaled_config(NEXT))
            service = await scenario.until(serves_from(other_than=old), 600)
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
        assert [one.get("target_capacity") for one in scenario.head(old).puts] == [100, 50, 0]
        assert [one.get("target_capacity") for one in scenario.head(new).puts][-2:] == [50, 100]
        await asyncio.sleep(5)
        assert await scenario.weights() == {new: 100}
        await asyncio.sleep(90)
        assert await scenario.cluster_names() == {new}


def has_traffic(percent: int) -> Check:
    """The pending cluster has come so far."""
    return lambda one: one.status.pending_service_status.traffic_routed_percent == percent


def has_no_pending(service: RayService) -> bool:
    return condition(service, "UpgradeInProgress") == ("False", "NoPendingCluster")


@virtually
async def test_an_upgrade_that_is_taken_back_half_way_rolls_back() -> None:
    async with a_split_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=scaled_config(NEXT))
        await scenario.until(has_traffic(50))
        moments: list[tuple[int, int, int, int]] = []
        async with running(follow(scenario, moments)):
            await scenario.edit(rayClusterConfig=scaled_config())
            back = ("True", "DesiredClusterSpecChanged")
            await scenario.until(lambda one: condition(one, "RollbackInProgress") == back)
            service = await scenario.until(has_no_pending)
        assert moments[-3:] == [(100, 75, 50, 25), (100, 100, 50, 0), (100, 100, 0, 0)]
        assert condition(service, "RollbackInProgress") == ("", "")
        assert service.status.active_service_status.ray_cluster_name == old
        await asyncio.sleep(100)
        assert await scenario.cluster_names() == {old}
        assert await scenario.weights() == {old: 100}
        assert scenario.head(old).puts[-1]["target_capacity"] == 100


@virtually
async def test_a_rollback_that_is_taken_back_goes_on_with_the_upgrade() -> None:
    async with a_split_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=scaled_config(NEXT))
        service = await scenario.until(has_traffic(50))
        pending = service.status.pending_service_status.ray_cluster_name
        await scenario.edit(rayClusterConfig=scaled_config())
        await scenario.until(has_traffic(25))
        await scenario.edit(rayClusterConfig=scaled_config(NEXT))
        service = await scenario.until(serves_from(other_than=old), 600)
        assert service.status.active_service_status.ray_cluster_name == pending


@virtually
async def test_a_third_spec_rolls_back_first_and_then_begins_again() -> None:
    async with (
        a_split_scenario() as scenario,
        watched(scenario, most_clusters=3),
        operator(scenario),
    ):
        old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=scaled_config(NEXT))
        service = await scenario.until(has_traffic(50))
        second = service.status.pending_service_status.ray_cluster_name
        await scenario.edit(rayClusterConfig=scaled_config("rayproject/ray:2.62.0"))
        await scenario.until(lambda one: condition(one, "RollbackInProgress")[0] == "True")
        service = await scenario.until(serves_from(other_than=old), 900)
        assert service.status.active_service_status.ray_cluster_name not in (old, second)


@virtually
async def test_a_rollback_does_not_wait_for_a_pending_cluster_that_is_dead() -> None:
    async with a_split_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=scaled_config(NEXT))
        service = await scenario.until(has_traffic(75))
        pending = service.status.pending_service_status.ray_cluster_name
        scenario.kubelet.script = lambda pod: {"phase": "Pending"}
        (head,) = await scenario.pods(f"ray.io/cluster={pending},ray.io/node-type=head")
        await scenario.client.delete(PODS, Key(NAMESPACE, head["metadata"]["name"]))
        await scenario.edit(rayClusterConfig=scaled_config())
        await scenario.until(has_no_pending, 600)
        assert await scenario.weights() == {old: 100}


@virtually
async def test_traffic_never_exceeds_the_capacity_behind_it() -> None:
    async with a_split_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario)
        moments: list[tuple[int, int, int, int]] = []
        async with running(follow(scenario, moments)):
            await scenario.edit(
                rayClusterConfig=scaled_config(NEXT), upgradeStrategy=incremental(7, 30, 3)
            )
            await scenario.until(serves_from(other_than=old), 900)
        for old_capacity, old_traffic, capacity, traffic in moments:
            assert traffic <= capacity
            assert old_traffic + traffic == 100
            assert 100 <= old_capacity + capacity <= 130 or (capacity, traffic) == (100, 100)


@virtually
async def test_a_pending_cluster_that_does_not_run_gets_no_traffic() -> None:
    async with a_split_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario)
        scenario.ray.deploy_after = None
        await scenario.edit(rayClusterConfig=scaled_config(NEXT))
        await scenario.until(lambda one: one.status.pending_service_status.target_capacity == 50)
        await asyncio.sleep(120)
        assert set((await scenario.weights()).values()) == {100, 0}
        service = await scenario.service()
        reported = message(service, "UpgradeInProgress")
        assert f"{old}: 100 % of the traffic, 100 % of the capacity" in reported
        assert 'application "app" is DEPLOYING' in reported


@virtually
async def test_a_gateway_that_is_not_programmed_is_waited_for_and_named() -> None:
    async with a_scenario(crds=GATEWAY_CRDS) as scenario, operator(scenario):
        old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=scaled_config(NEXT))
        text = "Gateway demo-gateway is not Accepted yet"
        await scenario.until(lambda one: text in message(one, "UpgradeInProgress"))
        async with running(accept_routes(scenario)):
            await scenario.until(serves_from(other_than=old), 600)


@virtually
async def test_a_cluster_without_the_gateway_api_gets_an_error() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(upgradeStrategy=incremental(), rayClusterConfig=scaled_config())
        text = "the Gateway API (gateway.networking.k8s.io/v1) is not installed"
        service = await scenario.until(lambda one: text in message(one, "UpgradeInProgress"))
        old = service.status.active_service_status.ray_cluster_name
        # Without a Gateway no request reaches it, although its Pods would take some.
        await scenario.until(lambda one: one.status.num_serve_endpoints > 0)
        assert text in message(await scenario.service(), "Ready")
        await scenario.edit(rayClusterConfig=scaled_config(NEXT))
        await asyncio.sleep(60)
        service = await scenario.service()
        assert text in message(service, "UpgradeInProgress")
        assert service.status.active_service_status.ray_cluster_name == old
        # The user takes the other way.
        await scenario.edit(upgradeStrategy={"type": "NewCluster", "clusterUpgradeOptions": None})
        service = await scenario.until(serves_from(other_than=old))
        assert await scenario.selected() == service.status.active_service_status.ray_cluster_name


@virtually
async def test_a_gateway_api_that_was_uninstalled_is_named_and_stops_no_other_work() -> None:
    """S1: Gateways come from a watch, whose cache would show them for ever."""
    async with a_scenario(crds=GATEWAY_CRDS) as scenario, operator(scenario):
        async with running(accept_routes(scenario)):
            await a_first_cluster(scenario)
        for one in GATEWAY_CRDS:
            key = Key("", one["metadata"]["name"])
            await scenario.client.delete(CUSTOM_RESOURCE_DEFINITIONS, key)
        await asyncio.sleep(60)
        await scenario.edit(rayClusterConfig=scaled_config(NEXT))
        text = "the Gateway API (gateway.networking.k8s.io/v1) is not installed"
        await scenario.until(lambda one: text in message(one, "UpgradeInProgress"))


@virtually
async def test_back_to_new_cluster_closes_the_gateway_once_the_service_stands() -> None:
    async with a_split_scenario() as scenario, operator(scenario):
        cluster = await a_first_cluster(scenario)
        await scenario.edit(upgradeStrategy={"type": "NewCluster", "clusterUpgradeOptions": None})
        await asyncio.sleep(20)
        assert await scenario.selected() == cluster
        for resource in (GATEWAYS, HTTP_ROUTES):
            assert (await scenario.client.list(resource, NAMESPACE)).items == []
        status = (await scenario.service()).status
        assert status.active_service_status.target_capacity is None
        assert "target_capacity" not in scenario.head(cluster).puts[-1]


@virtually
async def test_a_stable_service_from_before_follows_the_traffic() -> None:
    async with a_split_scenario() as scenario, watched(scenario) as oracle, operator(scenario):
        await scenario.create(rayClusterConfig=scaled_config())
        old = (await scenario.until(is_ready)).status.active_service_status.ray_cluster_name
        await scenario.edit(rayClusterConfig=scaled_config(NEXT), upgradeStrategy=incremental())
        service = await scenario.until(serves_from(other_than=old), 600)
        new = service.status.active_service_status.ray_cluster_name
        assert oracle.served_by == [old, new]


@virtually
@pytest.mark.parametrize("share", [0, 25, 50, 75, 100])
async def test_c54_suspend_at_any_step_of_a_walk_takes_gateway_and_route_too(share: int) -> None:
    async with a_split_scenario() as scenario, operator(scenario):
        await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=scaled_config(NEXT))
        await scenario.until(has_traffic(share))
        await scenario.edit(suspend=True)
        await scenario.until(lambda one: condition(one, "Suspended")[0] == "True")
        for resource in (GATEWAYS, HTTP_ROUTES):
            assert (await scenario.client.list(resource, NAMESPACE)).items == []
        assert await scenario.clusters() == []
        await scenario.edit(suspend=False)
        await scenario.until(is_ready)


@virtually
async def test_the_active_cluster_is_lost_in_mid_walk() -> None:
    async with a_split_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=scaled_config(NEXT))
        service = await scenario.until(has_traffic(25))
        pending = service.status.pending_service_status.ray_cluster_name
        await scenario.client.delete(RAY_CLUSTERS, Key(NAMESPACE, old))
        service = await scenario.until(serves_from(other_than=old), 60)
        assert service.status.active_service_status.ray_cluster_name == pending
        await asyncio.sleep(5)
        assert await scenario.weights() == {pending: 100}


@virtually
async def test_at_rest_nothing_is_written() -> None:
    async with a_split_scenario() as scenario:
        faults = faulty(scenario.plane)
        async with operator(scenario, Client(faults)):
            old = await a_first_cluster(scenario)
            await scenario.edit(rayClusterConfig=scaled_config(NEXT))
            await scenario.until(serves_from(other_than=old), 600)
            await asyncio.sleep(300)
            writes = len(faults.accepted_writes())
            await asyncio.sleep(900)
            assert len(faults.accepted_writes()) == writes


@pytest.mark.timeout(600)
@virtually
async def test_killed_after_any_write_the_walk_goes_on() -> None:
    async with a_split_scenario() as scenario:
        was_killed, writes = True, 0
        while was_killed:
            writes += 1
            scenario.name = f"demo{writes}"
            was_killed = await _walk_and_kill(scenario, writes)
        assert writes > 25


async def _walk_and_kill(scenario: Scenario, writes: int) -> bool:
    moments: list[tuple[int, int, int, int]] = []
    async with operator(scenario):
        old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=scaled_config(NEXT))
    faults = faulty(scenario.plane)
    async with running(follow(scenario, moments)):
        async with operator(scenario, Client(faults)):
            was_killed = await until_killed_or(faults, writes, 150)
        async with operator(scenario):
            service = await scenario.until(serves_from(other_than=old), 600)
    new = service.status.active_service_status.ray_cluster_name
    for old_capacity, old_traffic, capacity, traffic in moments:
        assert traffic <= capacity, moments
        assert old_capacity + capacity >= 100, moments
        assert old_traffic + traffic == 100 or traffic == 0, moments
    assert max(capacity for _, _, capacity, _ in moments) == 100
    async with operator(scenario):
        await asyncio.sleep(80)
        assert await scenario.cluster_names() == {new}
        await scenario.client.delete(RAY_SERVICES, scenario.key)
        await scenario.until_gone()
    return was_killed
