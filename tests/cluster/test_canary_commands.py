"""`manta upgrade promote|pause|resume|abort` on the embedded server."""

from __future__ import annotations

import argparse
import asyncio

import pytest

from manta.api.usage import UsageError
from manta.cli.upgrade import _verb
from manta.client.canary import steer
from manta.client.upgrade_state import Stage, view_of
from support.canary import canary, gpu_config, has_traffic
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

NEXT = "rayproject/ray:2.61.0"


async def a_canary(scenario: Scenario) -> str:
    """A canary that waits at its first step; the name of the old cluster."""
    by_hand = canary(25, 50, automatic=False)
    await scenario.create(upgradeStrategy=by_hand, rayClusterConfig=gpu_config())
    old = (await scenario.until(is_ready)).status.active_service_status.ray_cluster_name
    await scenario.edit(rayClusterConfig=gpu_config(NEXT))
    await scenario.until(has_traffic(25))
    return old


@virtually
async def test_promote_begins_one_step_and_with_all_every_further_one() -> None:
    async with a_scenario() as scenario, operator(scenario):
        old = await a_canary(scenario)
        await asyncio.sleep(20)
        text = await steer(scenario.client, scenario.key, "promote")
        assert text.endswith("gets 50 % of the traffic next")
        await scenario.until(has_traffic(50))
        await asyncio.sleep(60)
        assert has_traffic(50)(await scenario.service())
        await steer(scenario.client, scenario.key, "promote", every_step=True)
        await scenario.until(serves_from(other_than=old))


@virtually
async def test_pause_holds_and_resume_goes_on() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await a_canary(scenario)
        await steer(scenario.client, scenario.key, "pause")
        await scenario.until(lambda one: "it is paused" in message(one, "UpgradeInProgress"))
        assert (await steer(scenario.client, scenario.key, "resume")).endswith("resumed")
        await scenario.until(lambda one: "upgrade promote" in message(one, "UpgradeInProgress"))
        again = await steer(scenario.client, scenario.key, "resume")
        assert again.endswith("nothing is paused or rolled back")


@virtually
async def test_a_pause_after_a_promotion_of_all_steps_holds_the_next_one() -> None:
    async with a_scenario() as scenario, operator(scenario):
        old = await a_canary(scenario)
        await steer(scenario.client, scenario.key, "promote", every_step=True)
        text = await steer(scenario.client, scenario.key, "pause")
        assert text.endswith("paused; no further step begins")
        await scenario.until(lambda one: "it is paused" in message(one, "UpgradeInProgress"))
        held = (await scenario.service()).status.pending_service_status.traffic_routed_percent
        assert held in (25, 50), "a step that had begun may end"
        await steer(scenario.client, scenario.key, "resume")
        await asyncio.sleep(300)
        assert has_traffic(held)(await scenario.service()), "the promotion came back"
        await steer(scenario.client, scenario.key, "promote", every_step=True)
        await scenario.until(serves_from(other_than=old))


@virtually
async def test_a_promotion_after_a_pause_ends_the_pause() -> None:
    async with a_scenario() as scenario, operator(scenario):
        old = await a_canary(scenario)
        await steer(scenario.client, scenario.key, "pause")
        await scenario.until(lambda one: "it is paused" in message(one, "UpgradeInProgress"))
        text = await steer(scenario.client, scenario.key, "promote", every_step=True)
        assert text.endswith("no further step waits; it is no longer paused")
        await scenario.until(serves_from(other_than=old))


@virtually
async def test_a_pause_ends_with_the_canary_that_it_was_meant_for() -> None:
    async with a_scenario() as scenario, operator(scenario):
        old = await a_canary(scenario)
        await steer(scenario.client, scenario.key, "pause")
        await steer(scenario.client, scenario.key, "abort")
        await scenario.until(lambda one: view_of(one).stage is Stage.FAILED)
        await scenario.edit(
            upgradeStrategy=canary(25, 50, automatic=True),
            rayClusterConfig=gpu_config("rayproject/ray:2.62.0"),
        )
        await scenario.until(serves_from(other_than=old), 900)


@virtually
async def test_an_aborted_upgrade_failed_until_resume_tries_it_again() -> None:
    async with a_scenario() as scenario, operator(scenario):
        old = await a_canary(scenario)
        text = await steer(scenario.client, scenario.key, "abort")
        assert text.endswith(f"all requests go back to RayCluster {old}")
        await scenario.until(lambda one: condition(one, "RollbackInProgress")[0] == "True")
        for verb in ("promote", "pause", "resume", "abort"):
            with pytest.raises(
                UsageError, match=f"rolled back; all requests go to RayCluster {old}"
            ):
                await steer(scenario.client, scenario.key, verb)
        service = await scenario.until(lambda one: view_of(one).stage is Stage.FAILED)
        assert "aborted by hand" in view_of(service).verdict
        await asyncio.sleep(120)
        assert await scenario.cluster_names() == {old}
        text = await steer(scenario.client, scenario.key, "resume")
        assert text.endswith("the spec that was rolled back is tried again")
        await scenario.until(has_traffic(25))


@virtually
async def test_there_is_nothing_to_steer_without_a_canary() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        await scenario.until(is_ready)
        with pytest.raises(UsageError, match="its upgrade strategy is NewCluster"):
            await steer(scenario.client, scenario.key, "promote")
        await scenario.edit(upgradeStrategy=canary())
        with pytest.raises(UsageError, match="no canary is in progress"):
            await steer(scenario.client, scenario.key, "abort")


def parsed(*words: str, **flags: object) -> argparse.Namespace:
    return argparse.Namespace(**{"name": list(words), "image": None, "all": False, **flags})


def test_a_service_may_have_the_name_of_a_verb() -> None:
    assert _verb(parsed("promote")) == ""
    assert _verb(parsed("promote", "promote")) == "promote"


@pytest.mark.parametrize(
    ("args", "cure"),
    [
        (parsed("advance", "demo"), "is one of promote, pause, resume, abort"),
        (parsed("abort", "demo", image="ray:3"), "--image: leave it out with abort"),
        (parsed("demo", all=True), "--all needs promote"),
    ],
)
def test_words_that_do_not_fit_are_refused(args: argparse.Namespace, cure: str) -> None:
    with pytest.raises(UsageError, match=cure):
        _verb(args)
