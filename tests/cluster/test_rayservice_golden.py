"""Whole rollouts as stories to read: tests/golden/rayservice. `make golden` writes them again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_SERVICES
from manta.api.resources import PODS
from manta.kube.client import Client
from support.canary import FakeTraffic, canary, gpu_config, gpus_watched, no_image
from support.faults import Exchange
from support.raycluster import NAMESPACE
from support.rayservice import (
    GATEWAY_CRDS,
    Scenario,
    a_scenario,
    accept_routes,
    condition,
    is_ready,
    message,
    operator,
    serves_from,
    until_killed_or,
)
from support.rayservice_objects import cluster_config, incremental, scaled_config
from support.rayservice_story import recorded
from support.story import compare
from support.virtual import faulty, running, virtually

GOLDEN = Path(__file__).parents[1] / "golden" / "rayservice"
NEXT = "rayproject/ray:2.61.0"


async def active(scenario: Scenario, check: Any = is_ready, seconds: float = 600) -> str:
    return (await scenario.until(check, seconds)).status.active_service_status.ray_cluster_name


@virtually
async def test_golden_upgrade() -> None:
    async with a_scenario() as scenario, recorded(scenario) as story, operator(scenario):
        await scenario.create()
        old = await active(scenario)
        await asyncio.sleep(10)
        await story.user("asks for another image", rayClusterConfig=cluster_config(NEXT))
        await active(scenario, serves_from(other_than=old))
        await asyncio.sleep(70)
        compare(GOLDEN, "upgrade", story)


@virtually
async def test_golden_application_fails_then_back_to_the_first_spec() -> None:
    async with a_scenario() as scenario, recorded(scenario) as story, operator(scenario):
        await scenario.create()
        await active(scenario)
        scenario.ray.deploy_after = None
        await story.user("asks for another image", rayClusterConfig=cluster_config(NEXT))
        service = await scenario.until(lambda one: "DEPLOYING" in message(one, "UpgradeInProgress"))
        await asyncio.sleep(20)
        pending = service.status.pending_service_status.ray_cluster_name
        story.happens("Serve cannot import the application")
        why = "ModuleNotFoundError: No module named 'demo'"
        scenario.ray.set_applications(scenario.head(pending), None, "DEPLOY_FAILED", why)
        await scenario.until(lambda one: why in message(one, "UpgradeInProgress"))
        await asyncio.sleep(20)
        await story.user("goes back to the first image", rayClusterConfig=cluster_config())
        await asyncio.sleep(20)
        compare(GOLDEN, "rollback", story)


@virtually
async def test_golden_incremental() -> None:
    async with (
        a_scenario(crds=GATEWAY_CRDS) as scenario,
        running(accept_routes(scenario)),
        recorded(scenario, with_route=True) as story,
        operator(scenario),
    ):
        await scenario.create(upgradeStrategy=incremental(), rayClusterConfig=scaled_config())
        old = await active(scenario)
        await asyncio.sleep(10)
        await story.user("asks for another image", rayClusterConfig=scaled_config(NEXT))
        await active(scenario, serves_from(other_than=old))
        await asyncio.sleep(70)
        compare(GOLDEN, "incremental", story)


@virtually
async def test_golden_incremental_rollback() -> None:
    async with (
        a_scenario(crds=GATEWAY_CRDS) as scenario,
        running(accept_routes(scenario)),
        recorded(scenario, with_route=True) as story,
        operator(scenario),
    ):
        await scenario.create(upgradeStrategy=incremental(), rayClusterConfig=scaled_config())
        await active(scenario)
        await asyncio.sleep(10)
        await story.user("asks for another image", rayClusterConfig=scaled_config(NEXT))
        await scenario.until(
            lambda one: one.status.pending_service_status.traffic_routed_percent == 50
        )
        await story.user("goes back to the first image", rayClusterConfig=scaled_config())
        await scenario.until(
            lambda one: condition(one, "UpgradeInProgress") == ("False", "NoPendingCluster")
        )
        await asyncio.sleep(70)
        compare(GOLDEN, "incremental-rollback", story)


@virtually
async def test_golden_canary() -> None:
    async with a_scenario() as scenario, recorded(scenario) as story, operator(scenario):
        await scenario.create(upgradeStrategy=canary(25, 50), rayClusterConfig=gpu_config())
        old = await active(scenario)
        await asyncio.sleep(10)
        await story.user("asks for another image", rayClusterConfig=gpu_config(NEXT))
        await active(scenario, serves_from(other_than=old))
        await asyncio.sleep(70)
        compare(GOLDEN, "canary", story)


@virtually
async def test_golden_canary_aborted() -> None:
    async with a_scenario() as scenario, recorded(scenario) as story, operator(scenario):
        await scenario.create(upgradeStrategy=canary(25, 50), rayClusterConfig=gpu_config())
        await active(scenario)
        await story.user("asks for another image", rayClusterConfig=gpu_config(NEXT))
        service = await scenario.until(
            lambda one: one.status.pending_service_status.traffic_routed_percent == 50
        )
        new = service.status.pending_service_status.ray_cluster_name
        await story.annotates("aborts the canary", **{"manta.ray.io/canary-abort": new})
        await scenario.until(lambda one: condition(one, "RollbackInProgress")[0] == "True")
        await asyncio.sleep(90)
        compare(GOLDEN, "canary-aborted", story)


@virtually
async def test_golden_canary_with_errors() -> None:
    async with (
        a_scenario() as scenario,
        gpus_watched(scenario) as oracle,
        recorded(scenario) as story,
        operator(scenario),
    ):
        traffic = FakeTraffic(oracle)
        scenario.ray.metrics = traffic.page
        limits = {"maxErrorPercent": 2, "windowSeconds": 20, "minRequests": 20}
        strategy = canary(25, 50, pause=60, analysis=limits)
        await scenario.create(upgradeStrategy=strategy, rayClusterConfig=gpu_config())
        await active(scenario)
        await story.user("asks for another image", rayClusterConfig=gpu_config(NEXT))
        await scenario.until(
            lambda one: one.status.pending_service_status.traffic_routed_percent == 25
        )
        await asyncio.sleep(25)
        story.happens("the new image answers 5 % of the requests with errors")
        traffic.error_share[NEXT] = 0.05
        await scenario.until(lambda one: condition(one, "RollbackInProgress")[0] == "True")
        await asyncio.sleep(90)
        compare(GOLDEN, "canary-errors", story)


@virtually
async def test_golden_canary_that_never_starts() -> None:
    async with a_scenario() as scenario, recorded(scenario) as story, operator(scenario):
        scenario.kubelet.script = lambda pod: no_image(pod, "head", NEXT)
        strategy = canary(25, 50, progressDeadlineSeconds=120)
        await scenario.create(upgradeStrategy=strategy, rayClusterConfig=gpu_config())
        await active(scenario)
        await story.user("asks for an image that nobody has", rayClusterConfig=gpu_config(NEXT))
        await asyncio.sleep(180)
        compare(GOLDEN, "canary-without-progress", story)


@virtually
async def test_golden_suspend_in_the_middle() -> None:
    async with a_scenario() as scenario, recorded(scenario) as story, operator(scenario):
        await scenario.create()
        await active(scenario)
        await story.user("asks for another image", rayClusterConfig=cluster_config(NEXT))
        await asyncio.sleep(2)
        await story.user("suspends the service", suspend=True)
        await scenario.until(lambda one: condition(one, "Suspended")[0] == "True")
        await asyncio.sleep(60)
        await story.user("resumes it", suspend=False)
        await active(scenario)
        await asyncio.sleep(10)
        await scenario.client.delete(RAY_SERVICES, scenario.key)
        await scenario.until_gone()
        await asyncio.sleep(1)
        compare(GOLDEN, "suspend", story)


@virtually
async def test_golden_head_lost() -> None:
    async with a_scenario() as scenario, recorded(scenario) as story, operator(scenario):
        await scenario.create()
        cluster = await active(scenario)
        await asyncio.sleep(30)
        story.happens("the head's machine burns down")
        (head,) = await scenario.pods("ray.io/node-type=head")
        scenario.ray.restart_head(NAMESPACE, f"{cluster}-head-svc")
        await scenario.client.delete(PODS, Key(NAMESPACE, head["metadata"]["name"]))
        await asyncio.sleep(60)
        compare(GOLDEN, "head-lost", story)


@pytest.mark.timeout(600)
@virtually
async def test_golden_operator_killed_after_every_write() -> None:
    """Each operator lives for one write only; the next one finds what is left to do."""
    async with a_scenario() as scenario, recorded(scenario) as story:
        async with operator(scenario):
            await scenario.create()
            old = await active(scenario)
        await story.user("asks for another image", rayClusterConfig=cluster_config(NEXT))
        was_killed = True
        while was_killed:
            faults = faulty(scenario.plane)
            async with operator(scenario, Client(faults)):
                was_killed = await until_killed_or(faults, 1, 90)
            if was_killed:
                written = " and ".join(map(_kind_written, faults.accepted_writes()))
                story.happens(f"the operator is killed after it wrote one of {written}")
        assert serves_from(other_than=old)(await scenario.service())
        assert len(await scenario.cluster_names()) == 1
        compare(GOLDEN, "operator-killed-after-every-write", story)


def _kind_written(one: Exchange) -> str:
    return one.path.partition(f"/namespaces/{NAMESPACE}/")[2].partition("/")[0]


def test_golden_operator_killed_at_the_switch() -> None:
    """Killed right after it pointed the serve Service: nobody has written down the promotion."""
    for writes in range(1, 10):
        if _was_killed_at_the_switch(writes):
            return
    raise AssertionError("it was never killed at the switch")


def _was_killed_at_the_switch(writes: int) -> bool:
    last: list[str] = []

    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, recorded(scenario) as story:
            async with operator(scenario):
                await scenario.create()
                old = await active(scenario)
                await story.user("asks for another image", rayClusterConfig=cluster_config(NEXT))
                await scenario.until(lambda one: "DEPLOYING" in message(one, "UpgradeInProgress"))
            faults = faulty(scenario.plane)
            async with operator(scenario, Client(faults)):
                await until_killed_or(faults, writes, 30)
                story.happens("the operator is killed")
            last.append(faults.accepted_writes()[-1].path)
            story.happens("another operator starts")
            async with operator(scenario):
                await active(scenario, serves_from(other_than=old))
                await asyncio.sleep(70)
            if last[0].endswith("-serve-svc"):
                compare(GOLDEN, "operator-killed", story)

    scenario()
    return last[0].endswith("-serve-svc")
