"""RayJobs that make no sense: rejected at once with field and fix, and corrected by an edit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import JOBS
from manta.kube.errors import Invalid
from support.raycluster import NAMESPACE, ray_cluster
from support.rayjob import ray_job
from support.rayjob_scenario import (
    KEY,
    a_scenario,
    complete,
    has_deployment_status,
    is_running,
    operator,
)
from support.virtual import virtually

SELECTOR = {"ray.io/cluster": "shared"}
CLUSTER = ray_cluster()["spec"]


def rule(policy: str, **condition: Any) -> dict[str, Any]:
    return {"policy": policy, "condition": condition}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no entrypoint": ({"submissionMode": "HTTPMode", "entrypoint": ""}, "spec.entrypoint"),
    "blank entrypoint": ({"submissionMode": "HTTPMode", "entrypoint": "   "}, "spec.entrypoint"),
    "runtime env that is no YAML": ({"runtimeEnvYAML": "a: [b"}, "spec.runtimeEnvYAML"),
    "runtime env that is a list": ({"runtimeEnvYAML": "- a"}, "spec.runtimeEnvYAML"),
    "neither cluster nor selector": ({"rayClusterSpec": None}, "spec.rayClusterSpec"),
    "selector without the name": (
        {"rayClusterSpec": None, "clusterSelector": {"team": "a"}},
        "spec.clusterSelector",
    ),
    "an unknown mode": ({"submissionMode": "Telepathy"}, "spec.submissionMode"),
    "a deadline of zero": ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds"),
    "a negative backoff limit": ({"backoffLimit": -1}, "spec.backoffLimit"),
    "suspend without shutdown": ({"suspend": True}, "spec.suspend"),
    "a ttl without shutdown": ({"ttlSecondsAfterFinished": 5}, "spec.ttlSecondsAfterFinished"),
    "a cluster without dashboard": (
        {
            "rayClusterSpec": {
                **CLUSTER,
                "headGroupSpec": {
                    **CLUSTER["headGroupSpec"],
                    "rayStartParams": {"include-dashboard": "false"},
                },
            }
        },
        "include-dashboard",
    ),
    "resources that are no JSON": ({"entrypointResources": "{gpu"}, "spec.entrypointResources"),
    "resources that are no map": ({"entrypointResources": "[1]"}, "spec.entrypointResources"),
    "rules and shutdown": (
        {
            "shutdownAfterJobFinishes": True,
            "deletionStrategy": {
                "deletionRules": [rule("DeleteCluster", jobStatus="FAILED", ttlSeconds=1)]
            },
        },
        "spec.shutdownAfterJobFinishes",
    ),
    "rules in the wrong order": (
        {
            "deletionStrategy": {
                "deletionRules": [
                    rule("DeleteCluster", jobStatus="FAILED", ttlSeconds=1),
                    rule("DeleteWorkers", jobStatus="FAILED", ttlSeconds=9),
                ]
            }
        },
        "spec.deletionStrategy.deletionRules",
    ),
    "metadata for a Ray that knows none": (
        {"metadata": {"a": "b"}, "rayClusterSpec": {**CLUSTER, "rayVersion": "2.5.0"}},
        "spec.metadata",
    ),
}


@pytest.mark.parametrize("what", list(BAD))
def test_it_is_reported_by_its_field_and_repaired_by_an_edit(what: str) -> None:
    spec, field = BAD[what]

    @virtually
    async def scenario() -> None:
        async with a_scenario(finish_after=10) as scenario, operator(scenario):
            await scenario.create(**spec)
            job = await scenario.until(has_deployment_status("ValidationFailed"), 10)
            assert field in job.status.message
            assert job.status.reason == "ValidationFailed"
            assert ("Warning", "InvalidRayJobSpec") in await scenario.events()
            assert await scenario.clusters() == []
            good = await scenario.client.get(RAY_JOBS, KEY)
            await scenario.client.replace(RAY_JOBS, KEY, {**good, "spec": ray_job()["spec"]})
            await scenario.until(complete)
            assert len(scenario.ray.executions) == 1

    scenario()


@pytest.mark.parametrize(
    "spec",
    [
        {"preRunningDeadlineSeconds": 0},
        {"deletionStrategy": {}},
        {"deletionStrategy": {"deletionRules": []}},
        {"deletionStrategy": {"deletionRules": [rule("DeleteAll", jobStatus="FAILED")]}},
        {"deletionStrategy": {"deletionRules": [rule("DeleteSelf", jobStatus="STOPPED")]}},
        {"deletionStrategy": {"deletionRules": [rule("DeleteSelf")]}},
        {"backoffLimit": "many"},
    ],
    ids=str,
)
def test_what_the_schema_forbids_is_refused_by_the_server(spec: dict[str, Any]) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario:
            with pytest.raises(Invalid):
                await scenario.create(**spec)

    scenario()


@virtually
async def test_both_a_cluster_and_a_selector_mean_the_selected_one() -> None:
    """As KubeRay reads it: nothing is made where something is named."""
    async with a_scenario(finish_after=10) as scenario, operator(scenario):
        await scenario.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster("shared"))
        await scenario.create(clusterSelector=SELECTOR)
        await scenario.until(complete)
        assert [one["metadata"]["name"] for one in await scenario.clusters()] == ["shared"]


@virtually
async def test_a_selector_with_more_than_the_name_uses_the_name() -> None:
    async with a_scenario(finish_after=10) as scenario, operator(scenario):
        for name in ("shared", "other"):
            cluster = ray_cluster(name, labels={"team": "a"})
            await scenario.client.create(RAY_CLUSTERS, NAMESPACE, cluster)
        await scenario.create(rayClusterSpec=None, clusterSelector={**SELECTOR, "team": "a"})
        job = await scenario.until(complete)
        assert job.status.ray_cluster_name == "shared"


@virtually
async def test_a_borrowed_cluster_without_dashboard_is_waited_for_by_name() -> None:
    async with a_scenario(finish_after=10) as scenario, operator(scenario):
        silent = ray_cluster("shared", head={"rayStartParams": {"include-dashboard": "false"}})
        await scenario.client.create(RAY_CLUSTERS, NAMESPACE, silent)
        await scenario.create(rayClusterSpec=None, clusterSelector=SELECTOR)
        await scenario.until(lambda job: "without a dashboard" in job.status.message)
        assert ("Warning", "NoDashboard") in await scenario.events()


@virtually
async def test_a_submitter_whose_name_is_taken_is_said() -> None:
    """A Job of the user's with the RayJob's name is neither used nor touched."""
    async with a_scenario() as scenario, operator(scenario):
        container = {"name": "c", "image": "i"}
        theirs = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": KEY.name, "namespace": NAMESPACE},
            "spec": {
                "backoffLimit": 0,
                "template": {
                    "spec": {"containers": [container | {"env": _env()}], "restartPolicy": "Never"}
                },
            },
        }
        await scenario.client.create(JOBS, NAMESPACE, theirs)
        await scenario.create()
        await scenario.until(lambda job: "already exists and has no owner" in job.status.message)
        assert (await scenario.client.get(JOBS, KEY))["metadata"].get("ownerReferences") is None


def _env() -> list[dict[str, str]]:
    return [
        {"name": "RAY_DASHBOARD_ADDRESS", "value": "nowhere.default"},
        {"name": "RAY_JOB_SUBMISSION_ID", "value": "theirs"},
    ]


@virtually
async def test_an_edit_that_breaks_a_running_job_and_one_that_mends_it_run_nothing_twice() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(submissionMode="HTTPMode")
        job = await scenario.until(is_running)
        await scenario.patch(entrypoint="")
        await scenario.until(has_deployment_status("ValidationFailed"))
        await asyncio.sleep(30)
        await scenario.patch(entrypoint="python main.py")
        await scenario.until(has_deployment_status("Running"))
        scenario.end(job, "SUCCEEDED")
        await scenario.until(complete)
        assert len(scenario.ray.executions) == 1


@virtually
async def test_a_job_whose_cluster_went_while_it_was_invalid_is_lost_and_not_run_again() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(submissionMode="HTTPMode")
        await scenario.until(is_running)
        await scenario.patch(entrypoint="")
        await scenario.until(has_deployment_status("ValidationFailed"))
        [cluster] = await scenario.clusters()
        await scenario.client.delete(RAY_CLUSTERS, KEY._replace(name=cluster["metadata"]["name"]))
        await asyncio.sleep(10)
        await scenario.patch(entrypoint="python main.py")
        await scenario.until(has_deployment_status("Failed"))
        assert len(scenario.ray.executions) == 1
