"""Which Serve config a cluster gets, and when: never another spec's, and until it has it."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.names import ANNOTATION_SERVE_CONFIG
from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.kube.client import Client
from manta.rules.serve_config import config_hash
from manta.runtime.election import Leadership
from support import rayservice as support
from support.raycluster import NAMESPACE
from support.raycrds import ray_crds
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
)
from support.rayservice_objects import incremental, ray_service, scaled_config
from support.virtual import faulty, running, virtually

BETTER = "applications: [{name: app, import_path: demo.better}]"
THIRD = "applications: [{name: app, import_path: demo.third}]"


def imports(scenario: Scenario, cluster: str) -> list[str]:
    """What each config imports that this cluster was given, in order, each once in a row."""
    found: list[str] = []
    for config in scenario.head(cluster).puts:
        path = config["applications"][0]["import_path"]
        if path not in found[-1:]:
            found.append(path)
    return found


def lose_applications(scenario: Scenario, cluster: str) -> None:
    """As `serve shutdown` does: the head and its Ray go on."""
    scenario.head(cluster).applications.clear()
    scenario.head(cluster).serve_config = None


@virtually
async def test_a_new_serve_config_leaves_the_ray_cluster_object_untouched() -> None:
    """E7: its resourceVersion too."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        await scenario.until(is_ready)
        await asyncio.sleep(30)
        [before] = await scenario.clusters()
        await scenario.edit(serveConfigV2=BETTER)
        await asyncio.sleep(30)
        [after] = await scenario.clusters()
        assert imports(scenario, after["metadata"]["name"]) == ["demo.app", "demo.better"]
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


@virtually
async def test_applications_that_are_lost_again_and_again_are_submitted_every_time() -> None:
    """S6."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        service = await scenario.until(is_ready)
        cluster = service.status.active_service_status.ray_cluster_name
        for times in range(2, 6):
            await asyncio.sleep(120)
            lose_applications(scenario, cluster)
            await asyncio.sleep(90)
            assert len(scenario.head(cluster).puts) == times
            assert scenario.runs(cluster)


@virtually
async def test_a_head_that_takes_the_config_and_forgets_it_is_said_to() -> None:
    """S6: with ever longer pauses, and a reason that can be seen."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        service = await scenario.until(is_ready)
        cluster = service.status.active_service_status.ray_cluster_name
        async with running(_forgetting(scenario, cluster)):
            text = "knows none of its applications; it was submitted again"
            await scenario.until(lambda one: text in message(one), 120)
            before = len(scenario.head(cluster).puts)
            await asyncio.sleep(600)
            assert 9 <= len(scenario.head(cluster).puts) - before <= 16
        await asyncio.sleep(90)
        assert scenario.runs(cluster)


async def _forgetting(scenario: Scenario, cluster: str) -> None:
    while True:
        lose_applications(scenario, cluster)
        await asyncio.sleep(0.01)


@virtually
async def test_a_third_spec_reaches_no_cluster_that_was_made_for_another() -> None:
    """S20: neither the old cluster, which is rolled back to, nor the second one gets it."""
    async with (
        a_scenario(crds=GATEWAY_CRDS) as scenario,
        running(accept_routes(scenario)),
        operator(scenario),
    ):
        await scenario.create(upgradeStrategy=incremental(), rayClusterConfig=scaled_config())
        service = await scenario.until(is_ready)
        old = service.status.active_service_status.ray_cluster_name
        await scenario.edit(
            rayClusterConfig=scaled_config("rayproject/ray:2.61.0"), serveConfigV2=BETTER
        )
        half = 50
        service = await scenario.until(
            lambda one: one.status.pending_service_status.traffic_routed_percent == half
        )
        second = service.status.pending_service_status.ray_cluster_name
        await scenario.edit(
            rayClusterConfig=scaled_config("rayproject/ray:2.62.0"), serveConfigV2=THIRD
        )
        await scenario.until(lambda one: condition(one, "RollbackInProgress")[0] == "True")
        service = await scenario.until(serves_from(other_than=old), 900)
        third = service.status.active_service_status.ray_cluster_name
        assert imports(scenario, old) == ["demo.app"]
        assert imports(scenario, second) == ["demo.better"]
        assert imports(scenario, third) == ["demo.third"]


def _without_submissions() -> list[dict[str, Any]]:
    """As KubeRay's definition: a status has no field for what was submitted."""
    found = deepcopy(ray_crds())
    for document in found:
        for version in document["spec"]["versions"]:
            status = version["schema"]["openAPIV3Schema"]["properties"].get("status", {})
            for side in ("activeServiceStatus", "pendingServiceStatus"):
                fields = status.get("properties", {}).get(side, {}).get("properties", {})
                fields.pop("serveSubmission", None)
    return found


@virtually
async def test_a_definition_that_drops_the_record_costs_no_endless_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E7: under KubeRay's CRD what was submitted is remembered, and a restart submits it once."""
    monkeypatch.setattr(support, "ray_crds", _without_submissions)
    async with a_scenario() as scenario:
        faults = faulty(scenario.plane)
        async with operator(scenario, Client(faults)):
            await scenario.create()
            service = await scenario.until(is_ready)
            cluster = service.status.active_service_status.ray_cluster_name
            raw = await scenario.client.get(RAY_SERVICES, Key(NAMESPACE, "demo"))
            assert "serveSubmission" not in raw["status"]["activeServiceStatus"]
            await asyncio.sleep(120)
            writes = len(faults.accepted_writes())
            await scenario.client.patch(
                RAY_CLUSTERS, Key(NAMESPACE, cluster), {"metadata": {"labels": {"a": "b"}}}
            )
            await asyncio.sleep(120)
            assert len(faults.accepted_writes()) == writes
            assert len(scenario.head(cluster).puts) == 1
        async with operator(scenario):
            await asyncio.sleep(60)
            assert len(scenario.head(cluster).puts) == 2


@virtually
async def test_a_note_of_an_earlier_version_does_not_outlive_a_later_submission(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E7: nobody updates the annotation any more. Where the CRD drops the record, a restarted operator
    would take the annotation for the last submission, although another config came after it."""
    monkeypatch.setattr(support, "ray_crds", _without_submissions)
    async with a_scenario() as scenario:
        async with operator(scenario):
            await scenario.create()
            service = await scenario.until(is_ready)
            cluster = service.status.active_service_status.ray_cluster_name
            [head] = await scenario.pods("ray.io/node-type=head")
            note = f"{config_hash(scenario.head(cluster).puts[0])}@{head['metadata']['uid']}/0"
            body = {"metadata": {"annotations": {ANNOTATION_SERVE_CONFIG: note}}}
            await scenario.client.patch(RAY_CLUSTERS, Key(NAMESPACE, cluster), body)
            await scenario.edit(serveConfigV2=BETTER)
            await asyncio.sleep(60)
        await scenario.edit(serveConfigV2=_original())
        async with operator(scenario):
            await asyncio.sleep(60)
        assert imports(scenario, cluster) == ["demo.app", "demo.better", "demo.app"]


def _original() -> str:
    text: str = ray_service("demo")["spec"]["serveConfigV2"]
    return text


@virtually
async def test_an_operator_without_the_lease_asks_nobody_and_remembers_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another operator submits meanwhile: remembered state would hide that the config has changed."""
    monkeypatch.setattr(support, "ray_crds", _without_submissions)
    first, second = Leadership(), Leadership()
    async with (
        a_scenario() as scenario,
        operator(scenario, leadership=first),
        operator(scenario, leadership=second),
    ):
        first.change(leading=True)
        await scenario.create()
        service = await scenario.until(is_ready)
        cluster = service.status.active_service_status.ray_cluster_name
        first.change(leading=False)
        asked = len(scenario.ray.calls) + len(scenario.ray.probes)
        await asyncio.sleep(120)
        assert len(scenario.ray.calls) + len(scenario.ray.probes) == asked

        second.change(leading=True)
        await scenario.edit(serveConfigV2=BETTER)
        await asyncio.sleep(60)
        second.change(leading=False)
        await scenario.edit(serveConfigV2=_original())
        first.change(leading=True)
        await asyncio.sleep(60)
        assert imports(scenario, cluster)[-2:] == ["demo.better", "demo.app"]
