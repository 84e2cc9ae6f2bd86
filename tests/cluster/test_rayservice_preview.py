"""`manta plan` of an edited RayService: what would be done, and which field asks for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.ray.resources import RAY_SERVICES
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.preview import Effect, preview
from manta.reconcile.preview import Preview
from manta.rules.settings import Settings
from support.canary import canary, gpu_config
from support.rayservice import GATEWAY_CRDS, Scenario, a_scenario, accept_routes, is_ready, operator
from support.rayservice_objects import (
    CONFIG,
    cluster_config,
    incremental,
    ray_service,
    scaled_config,
)
from support.virtual import running, virtually

NEXT = "rayproject/ray:2.61.0"
ANOTHER_CONFIG = CONFIG.replace("demo.app", "other.app")


async def ask(scenario: Scenario, **spec: Any) -> Preview:
    """Of an edit, or of the live object when nothing is edited."""
    before = scenario.plane.app.store.revision
    asked = len(scenario.ray.calls)
    manifest = ray_service(**spec) if spec else None
    found = await preview(scenario.client, Settings(), scenario.plane.clock, scenario.key, manifest)
    assert found is not None
    assert scenario.plane.app.store.revision == before, "a preview writes nothing"
    assert len(scenario.ray.calls) == asked, "a preview asks nobody"
    return found


async def at_rest(scenario: Scenario, **spec: Any) -> None:
    await scenario.create(**spec)
    await scenario.until(is_ready)
    await asyncio.sleep(10)


@virtually
async def test_a_new_service_gets_its_first_cluster() -> None:
    async with a_scenario() as scenario:
        found = await ask(scenario, serveConfigV2=CONFIG)
        assert found.effect is Effect.FIRST
        assert [one.cause for one in found.plan.actions] == [Cause.CREATE_CLUSTER]


@virtually
async def test_at_rest_nothing_changes() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await at_rest(scenario)
        assert (await ask(scenario)).effect is Effect.NOTHING
        assert (await ask(scenario, serveConfigV2=CONFIG)).effect is Effect.NOTHING


@virtually
async def test_a_serve_config_is_reported_in_place_with_its_field() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await at_rest(scenario)
        found = await ask(scenario, serveConfigV2=ANOTHER_CONFIG)
        assert found.effect is Effect.SERVE_CONFIG
        assert found.changes == (
            'spec.serveConfigV2.applications[app].import_path: "demo.app" -> "other.app"',
        )
        assert found.plan.actions[0].cause == Cause.SUBMIT_CONFIG


@virtually
async def test_further_groups_and_other_bounds_are_reported_in_place() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await at_rest(scenario)
        config = cluster_config()
        [first] = config["workerGroupSpecs"]
        grown = config | {"workerGroupSpecs": [first, {**first, "groupName": "more"}]}
        assert (await ask(scenario, rayClusterConfig=grown)).effect is Effect.WORKER_GROUPS
        wider = config | {"workerGroupSpecs": [{**first, "maxReplicas": 9}]}
        assert (await ask(scenario, rayClusterConfig=wider)).effect is Effect.WORKER_GROUPS
        both = await ask(scenario, rayClusterConfig=wider, serveConfigV2=ANOTHER_CONFIG)
        assert both.effect is Effect.BOTH_IN_PLACE


@virtually
async def test_another_image_is_shown_as_a_new_cluster_and_names_the_field() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await at_rest(scenario)
        found = await ask(scenario, rayClusterConfig=cluster_config(NEXT))
        assert found.effect is Effect.NEW_CLUSTER
        [why] = found.remarks
        image = "spec.rayClusterConfig.headGroupSpec.template.spec.containers[ray].image"
        assert why == f'needs new Pods: {image}: "rayproject/ray:2.60.0" -> "{NEXT}"'
        assert Cause.CREATE_CLUSTER in [one.cause for one in found.plan.actions]


@virtually
async def test_strategy_none_holds_it_back() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await at_rest(scenario)
        strategy = {"type": "None"}
        found = await ask(scenario, rayClusterConfig=cluster_config(NEXT), upgradeStrategy=strategy)
        assert found.effect is Effect.KEPT
        assert "image" in found.remarks[0]


@virtually
async def test_steps_of_an_incremental_upgrade_are_reported() -> None:
    async with (
        a_scenario(crds=GATEWAY_CRDS) as scenario,
        running(accept_routes(scenario)),
        operator(scenario),
    ):
        await at_rest(scenario, upgradeStrategy=incremental(), rayClusterConfig=scaled_config())
        found = await ask(
            scenario, upgradeStrategy=incremental(), rayClusterConfig=scaled_config(NEXT)
        )
        assert found.effect is Effect.INCREMENTAL
        assert "every 10 s 25 % of the traffic moves" in found.remarks[-1]
        await scenario.edit(rayClusterConfig=scaled_config(NEXT))
        await scenario.until(
            lambda one: bool(one.status.pending_service_status.traffic_routed_percent)
        )
        back = await ask(scenario, upgradeStrategy=incremental(), rayClusterConfig=scaled_config())
        assert back.effect is Effect.ROLLBACK


@virtually
async def test_going_back_in_mid_upgrade_drops_the_pending_cluster() -> None:
    async with a_scenario(deploy_after=None) as scenario, operator(scenario):
        scenario.ray.deploy_after = 5
        await at_rest(scenario)
        scenario.ray.deploy_after = None
        await scenario.edit(rayClusterConfig=cluster_config(NEXT))
        await scenario.until(
            lambda one: bool(one.status.pending_service_status.application_statuses)
        )
        assert (
            await ask(scenario, rayClusterConfig=cluster_config())
        ).effect is Effect.PENDING_DROPPED
        third = cluster_config("rayproject/ray:2.62.0")
        assert (await ask(scenario, rayClusterConfig=third)).effect is Effect.NEW_CLUSTER


@virtually
@pytest.mark.parametrize(
    ("edit", "effect"),
    [
        ({"suspend": True}, Effect.SUSPENDED),
        ({"serveConfigV2": "applications: ["}, Effect.INVALID),
        ({"excludeHeadPodFromServeSvc": True}, Effect.OTHERS_IN_PLACE),
    ],
)
async def test_other_edits_are_reported_for_what_they_are(
    edit: dict[str, Any], effect: Effect
) -> None:
    async with a_scenario() as scenario, operator(scenario):
        await at_rest(scenario)
        found = await ask(scenario, **edit)
        assert found.effect is effect
        assert bool(found.violations) == (effect is Effect.INVALID)


@virtually
async def test_a_service_of_another_operator_has_no_plan() -> None:
    async with a_scenario() as scenario:
        body = ray_service(managedBy="kueue.x-k8s.io/multikueue")
        await scenario.client.create(RAY_SERVICES, scenario.key.namespace, body)
        found = await preview(scenario.client, Settings(), scenario.plane.clock, scenario.key, None)
        assert found is None


@virtually
async def test_a_canary_is_announced_with_its_steps() -> None:
    async with a_scenario() as scenario, operator(scenario):
        spec = {"upgradeStrategy": canary(25, 50)}
        await at_rest(scenario, rayClusterConfig=gpu_config(), **spec)
        found = await ask(scenario, rayClusterConfig=gpu_config(NEXT), **spec)
        assert found.effect is Effect.CANARY
        assert "the new cluster gets 25 %, 50 %, 100 % of the traffic, one after the other" in (
            found.remarks
        )
        assert not any("GPU" in one for one in found.remarks)
        with_gpu = gpu_config(NEXT)
        ray = with_gpu["headGroupSpec"]["template"]["spec"]["containers"][0]
        ray["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
        found = await ask(scenario, rayClusterConfig=with_gpu, **spec)
        assert "the new head needs 1 GPU beside maxSurge, which counts workers" in found.remarks
