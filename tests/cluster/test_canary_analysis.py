"""The analysis of canaries on the embedded server: broken limits roll back, unread figures hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from manta.api.ray.service import RayService
from manta.api.resources import EVENTS
from manta.controllers.rayservice import dashboard_client
from manta.rules.settings import Settings
from support.canary import FakeTraffic, canary, gpu_config, gpus_watched
from support.raycluster import NAMESPACE
from support.rayservice import (
    Scenario,
    a_scenario,
    condition,
    is_ready,
    message,
    operator,
    serves_from,
)
from support.virtual import virtually

OLD, NEXT = "rayproject/ray:2.60.0", "rayproject/ray:2.61.0"
LIMITS = {"maxErrorPercent": 2, "maxP95Milliseconds": 200, "minRequests": 50}


@asynccontextmanager
async def a_canary(
    *, pause: int = 30, limits: dict[str, Any] | None = None, settings: Settings | None = None
) -> AsyncIterator[tuple[Scenario, FakeTraffic, str]]:
    """A canary under way, its traffic, and the name of the old cluster."""
    async with (
        a_scenario(settings=settings) as scenario,
        operator(scenario),
        gpus_watched(scenario) as oracle,
    ):
        traffic = FakeTraffic(oracle)
        scenario.ray.metrics = traffic.page
        strategy = canary(25, 50, pause=pause, analysis=limits or LIMITS)
        await scenario.create(upgradeStrategy=strategy, rayClusterConfig=gpu_config())
        old = (await scenario.until(is_ready)).status.active_service_status.ray_cluster_name
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        await scenario.until(lambda one: takes_traffic(one, 25))
        yield scenario, traffic, old
        assert oracle.most_gpus <= 5
        assert oracle.empty == 0


def takes_traffic(service: RayService, percent: int) -> bool:
    side = service.status.pending_service_status
    return side.traffic_routed_percent == percent and bool(side.last_traffic_migrated_time)


def upgrade(service: RayService) -> str:
    return message(service, "UpgradeInProgress")


@virtually
async def test_a_healthy_new_cluster_passes_all_steps() -> None:
    async with a_canary() as (scenario, _, old):
        await scenario.until(serves_from(other_than=old), 600)


@virtually
async def test_errors_above_the_limit_roll_back_within_half_a_minute() -> None:
    async with a_canary(pause=600) as (scenario, traffic, old):
        await asyncio.sleep(60)
        traffic.error_share[NEXT] = 0.05
        await scenario.until(
            lambda one: condition(one, "RollbackInProgress") == ("True", "CanaryRejected"), 60
        )
        # 5 % for 24 s of a window of 60 s are 2 %: the limit is passed then.
        assert await scenario.selected() == old
        text = message(await scenario.service(), "RollbackInProgress")
        assert "% of the responses are errors (limit 2 %)" in text
        assert "old cluster: 0.0 % errors" in text
        notes = [
            one["note"]
            for one in (await scenario.client.list(EVENTS, NAMESPACE)).items
            if one["reason"] == "RolledBackCanary"
        ]
        assert any("limit 2 %" in one for one in notes)
        await scenario.until(
            lambda one: condition(one, "UpgradeInProgress") == ("False", "CanaryRejected")
        )
        await asyncio.sleep(120)
        assert await scenario.cluster_names() == {old}


@virtually
async def test_a_slow_new_cluster_rolls_back() -> None:
    async with a_canary(pause=600) as (scenario, traffic, old):
        traffic.milliseconds[NEXT] = 1000
        await scenario.until(lambda one: condition(one, "RollbackInProgress")[0] == "True", 120)
        assert await scenario.selected() == old
        assert "95th percentile" in message(await scenario.service(), "RollbackInProgress")


@virtually
async def test_a_new_cluster_that_hangs_rolls_back() -> None:
    async with a_canary(pause=600) as (scenario, traffic, old):
        traffic.hangs.add(NEXT)
        await scenario.until(lambda one: condition(one, "RollbackInProgress")[0] == "True", 180)
        assert await scenario.selected() == old
        text = message(await scenario.service(), "RollbackInProgress")
        assert "no request was answered in 60 s" in text


@virtually
async def test_a_new_cluster_whose_first_requests_are_slow_goes_on() -> None:
    async with a_canary(pause=30) as (scenario, traffic, old):
        traffic.hangs.add(NEXT)
        await asyncio.sleep(45)
        traffic.hangs.remove(NEXT)
        await scenario.until(serves_from(other_than=old), 600)


@virtually
async def test_a_new_cluster_that_nobody_asks_holds_the_next_step() -> None:
    async with a_canary(pause=0) as (scenario, traffic, old):
        traffic.ignored.add(NEXT)
        await scenario.until(lambda one: "took 0 of 50 requests" in upgrade(one))
        await asyncio.sleep(300)
        assert takes_traffic(await scenario.service(), 25)
        traffic.ignored.remove(NEXT)
        await scenario.until(serves_from(other_than=old), 600)


@virtually
async def test_errors_of_the_old_cluster_alone_do_not_roll_back() -> None:
    async with a_canary() as (scenario, traffic, old):
        traffic.error_share[OLD] = 0.5
        await scenario.until(serves_from(other_than=old), 600)


@virtually
async def test_figures_that_cannot_be_read_hold_the_next_step() -> None:
    async with a_canary(pause=0) as (scenario, traffic, old):
        traffic.unreachable = True
        await scenario.until(lambda one: "metrics cannot be read" in upgrade(one))
        await asyncio.sleep(300)
        service = await scenario.service()
        assert takes_traffic(service, 25)
        assert "no answer within 2 s" in upgrade(service)
        traffic.unreachable = False
        await scenario.until(serves_from(other_than=old), 600)


@virtually
async def test_too_few_requests_hold_the_next_step() -> None:
    async with a_canary(pause=0) as (scenario, traffic, old):
        traffic.per_second = 0.1
        await asyncio.sleep(120)
        await scenario.until(lambda one: "requests that a verdict needs" in upgrade(one))
        assert takes_traffic(await scenario.service(), 25)
        traffic.per_second = 20
        await scenario.until(serves_from(other_than=old), 600)


@virtually
async def test_a_query_without_an_address_of_prometheus_holds_and_says_the_cure() -> None:
    limits = {"prometheus": {"query": "vector(1)", "max": 2}}
    async with a_canary(pause=0, limits=limits) as (scenario, _, _):
        service = await scenario.until(lambda one: "--prometheus-address" in upgrade(one))
        assert takes_traffic(service, 25)


def test_a_query_above_its_limit_rolls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def answers(_: object, address: str, query: str) -> float:
        asked.append(f"{address} {query}")
        return 0.0 if len(asked) < 5 else 3.0

    monkeypatch.setattr(dashboard_client, "query_number", answers)
    limits = {"prometheus": {"query": 'bad{a="$old",b="$new",c="$namespace"}', "max": 2}}

    @virtually
    async def story() -> None:
        settings = Settings(prometheus_address="http://prometheus:9090")
        async with a_canary(pause=600, limits=limits, settings=settings) as (scenario, _, old):
            new = (await scenario.service()).status.pending_service_status.ray_cluster_name
            told = await scenario.until(
                lambda one: "Prometheus answers 3 (limit 2)" in message(one, "RollbackInProgress")
            )
            assert condition(told, "RollbackInProgress") == ("True", "CanaryRejected")
            await scenario.until(lambda one: not one.status.pending_service_status.ray_cluster_name)
            after = (await scenario.service()).status.active_service_status
            assert after.ray_cluster_name == old
            query = f'bad{{a="{old}",b="{new}",c="{NAMESPACE}"}}'
            assert set(asked) == {f"http://prometheus:9090 {query}"}

    story()


@virtually
async def test_no_metrics_are_read_without_limits_or_without_a_canary() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(upgradeStrategy=canary(50), rayClusterConfig=gpu_config())
        old = (await scenario.until(is_ready)).status.active_service_status.ray_cluster_name
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        await scenario.until(serves_from(other_than=old), 600)
        assert not [url for url in scenario.ray.probes if url.endswith("/metrics")]
