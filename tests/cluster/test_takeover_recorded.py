"""Manta takes over objects that KubeRay 1.5, 1.6 and 1.7 made themselves (`support.recorded_kuberay`).

A RayCluster, a RayService in the middle of an upgrade and a RayJob that runs: nothing comes, nothing goes, nothing is
submitted, what the statuses say stays true, and what began under KubeRay finishes.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import JOBS, PODS, SERVICES
from manta.rules.settings import Settings
from support.kuberay import GROUPS, HASH, RELEASES, VERSION
from support.recorded_kuberay import DIRECTORY, make_again, objects_of
from support.takeover import SERVED, Scenario, a_scenario
from support.virtual import virtually

Json = dict[str, Any]
RECORDED = sorted(path.stem for path in DIRECTORY.glob("*.json"))
KEPT = (PODS, RAY_CLUSTERS, RAY_SERVICES, RAY_JOBS, SERVICES, JOBS)


async def uids(scenario: Scenario) -> set[str]:
    return {uid for resource in KEPT for uid in await scenario.uids(resource)}


async def ray_as_it_was(scenario: Scenario, recorded: list[Json]) -> tuple[str, str, str]:
    """What Ray itself knew at that time; names the active and the pending cluster and the job's."""
    [service] = [one["status"] for one in recorded if one["kind"] == "RayService"]
    [job] = [one["status"] for one in recorded if one["kind"] == "RayJob"]
    active = str(service["activeServiceStatus"]["rayClusterName"])
    pending = str(service["pendingServiceStatus"]["rayClusterName"])
    scenario.serve(active, SERVED)
    scenario.serve(pending, SERVED, "DEPLOYING")
    scenario.run_job(job["rayClusterName"], job["jobId"])
    return active, pending, str(job["rayClusterName"])


def reported(objects: list[Json]) -> Json:
    """What must still be said."""
    rows: Json = {}
    for one in objects:
        status = one.get("status") or {}
        fields = ("state", "readyWorkerReplicas", "jobStatus", "jobDeploymentStatus", "jobId")
        of_services = ("serviceStatus", "numServeEndpoints")
        row = {name: status.get(name) for name in (*fields, *of_services, "rayClusterName")}
        for side in ("activeServiceStatus", "pendingServiceStatus"):
            row[side] = (status.get(side) or {}).get("rayClusterName")
        rows[one["metadata"]["name"]] = row
    return rows


def test_every_release_is_there() -> None:
    families = [release.version.removeprefix("v").rpartition(".")[0] for release in RELEASES]
    assert [release.rpartition(".")[0] for release in RECORDED] == families


@pytest.mark.parametrize("release", RECORDED)
def test_what_kuberay_itself_made_goes_on_untouched(release: str) -> None:
    @virtually
    async def story() -> None:
        recorded = objects_of(release)
        async with a_scenario(RELEASES[-1]) as scenario:
            await make_again(scenario.client, recorded)
            active, pending, running = await ray_as_it_was(scenario, recorded)
            await asyncio.sleep(5)  # until the Pods run
            before = await uids(scenario)
            async with scenario.manta():
                await asyncio.sleep(60)
                assert await uids(scenario) == before
                assert scenario.submissions() == []
                assert all(one == SERVED for one in scenario.puts(pending))
                assert scenario.puts(active) == []
                for resource in (RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES):
                    said = [one for one in recorded if one["kind"] == resource.kind]
                    assert reported(await scenario.all(resource)) == reported(said)
                for cluster in await scenario.all(RAY_CLUSTERS):
                    assert may_go_back(cluster, recorded), cluster["metadata"]
                await brought_to_an_end(scenario, pending, running)

    story()


def may_go_back(cluster: Json, recorded: list[Json]) -> bool:
    """KubeRay takes it as its own, or as another's whose worker groups it does not count."""
    name, notes = cluster["metadata"]["name"], cluster["metadata"].get("annotations") or {}
    [was] = [
        one["metadata"].get("annotations") or {}
        for one in recorded
        if one["kind"] == "RayCluster" and one["metadata"]["name"] == name
    ]
    if notes.get(VERSION) != Settings().version:
        return all(notes.get(one) == was.get(one) for one in (VERSION, HASH, GROUPS))
    return not notes[GROUPS].isdecimal()


async def brought_to_an_end(scenario: Scenario, pending: str, running: str) -> None:
    head = scenario.ray.head("default", f"{pending}-head-svc")
    scenario.ray.set_applications(head, None, "RUNNING")
    head = scenario.ray.head("default", f"{running}-head-svc")
    [job_id] = head.jobs
    scenario.ray.end(head, job_id, "SUCCEEDED")
    await asyncio.sleep(400)
    [service] = await scenario.all(RAY_SERVICES)
    assert service["status"]["activeServiceStatus"]["rayClusterName"] == pending
    [job] = await scenario.all(RAY_JOBS)
    assert job["status"]["jobDeploymentStatus"] == "Complete"
