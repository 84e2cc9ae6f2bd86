"""What is deleted after a RayJob's end: every rule, to the second on the virtual clock."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest

from manta.api.ray.job import RayJob
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.times import parse_time
from manta.kube.client import Client
from manta.rules.settings import Settings
from support.faults import FaultTransport
from support.raycluster import NAMESPACE, ray_cluster
from support.rayjob_scenario import Scenario, a_scenario, is_running, operator
from support.virtual import faulty, virtually

HTTP = {"submissionMode": "HTTPMode"}
Rule = tuple[str, str, str, int]
"""(policy, kind of condition, its value, seconds)"""


def rules(*wanted: Rule) -> dict[str, Any]:
    return {
        "deletionStrategy": {
            "deletionRules": [
                {"policy": policy, "condition": {kind: value, "ttlSeconds": seconds}}
                for policy, kind, value, seconds in wanted
            ]
        }
    }


def legacy(success: str, failure: str) -> dict[str, Any]:
    return {
        "deletionStrategy": {"onSuccess": {"policy": success}, "onFailure": {"policy": failure}}
    }


async def ended(scenario: Scenario, how: str) -> RayJob:
    """As it was when it had just ended: a rule may delete it in the same moment."""
    seen = asyncio.create_task(_first_end(scenario))
    scenario.end(await scenario.until(is_running), how)
    async with asyncio.timeout(60):
        return await seen


async def _first_end(scenario: Scenario) -> RayJob:
    async with aclosing(scenario.client.watch(RAY_JOBS, into=RayJob)) as events:
        async for event in events:
            if event.type != "BOOKMARK" and event.object.status.end_time is not None:
                return event.object
    raise AssertionError("the watch ended first")


def late_by(scenario: Scenario, job: RayJob, faults: FaultTransport, mark: str, ttl: int) -> float:
    """Seconds between the moment that the rule names and the first request of this kind."""
    [at, *_] = [one.at for one in faults.log if mark in f"{one.method} {one.path}"]
    passed = timedelta(seconds=asyncio.get_running_loop().time() - at)
    done = scenario.plane.clock.now() - passed
    due = parse_time(job.status.end_time or "") + timedelta(seconds=ttl)
    return (done - due).total_seconds()


DELETE_CLUSTER = "DELETE /apis/ray.io/v1/namespaces/default/rayclusters/"
DELETE_SELF = "DELETE /apis/ray.io/v1/namespaces/default/rayjobs/"
PATCH_CLUSTER = "PATCH /apis/ray.io/v1/namespaces/default/rayclusters/demo"
DONE_BY = {
    "DeleteCluster": DELETE_CLUSTER,
    "DeleteSelf": DELETE_SELF,
    "DeleteWorkers": PATCH_CLUSTER,
}


@pytest.mark.parametrize("ttl", [0, 7, 3600])
@pytest.mark.parametrize("policy", list(DONE_BY))
@pytest.mark.parametrize(
    ("end", "kind", "value"),
    [
        ("SUCCEEDED", "jobStatus", "SUCCEEDED"),
        ("FAILED", "jobStatus", "FAILED"),
        ("FAILED", "jobDeploymentStatus", "Failed"),
    ],
)
def test_a_rule_is_carried_out_in_its_second(
    end: str, kind: str, value: str, policy: str, ttl: int
) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario:
            faults = faulty(scenario.plane)
            async with operator(scenario, Client(faults)):
                await scenario.create(**HTTP, **rules((policy, kind, value, ttl)))
                job = await ended(scenario, end)
                await asyncio.sleep(ttl + 3)
                mark = DONE_BY[policy]
                if policy == "DeleteWorkers":
                    # The status of a cluster is patched as well: the spec is what counts.
                    faults.log = [one for one in faults.log if not one.path.endswith("/status")]
                assert 0 <= late_by(scenario, job, faults, mark, ttl) < 1

    scenario()


@pytest.mark.parametrize(
    ("spec", "end", "gone"),
    [
        (legacy("DeleteCluster", "DeleteNone"), "SUCCEEDED", "cluster"),
        (legacy("DeleteCluster", "DeleteNone"), "FAILED", ""),
        (legacy("DeleteNone", "DeleteCluster"), "FAILED", "cluster"),
        (legacy("DeleteNone", "DeleteSelf"), "FAILED", "self"),
        (legacy("DeleteWorkers", "DeleteNone"), "SUCCEEDED", "workers"),
        (legacy("DeleteCluster", "DeleteCluster"), "STOPPED", "cluster"),
        (legacy("DeleteNone", "DeleteNone"), "STOPPED", ""),
        (rules(("DeleteCluster", "jobStatus", "SUCCEEDED", 5)), "FAILED", ""),
        (rules(("DeleteCluster", "jobStatus", "SUCCEEDED", 5)), "STOPPED", "cluster"),
        (rules(("DeleteNone", "jobStatus", "SUCCEEDED", 5)), "SUCCEEDED", ""),
        ({"shutdownAfterJobFinishes": True}, "STOPPED", "cluster"),
        ({}, "SUCCEEDED", ""),
    ],
)
def test_what_each_end_leaves(spec: dict[str, Any], end: str, gone: str) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            await scenario.create(**HTTP, **spec)
            await ended(scenario, end)
            await asyncio.sleep(20)
            if gone == "self":
                assert await scenario.until_gone() < 1
                return
            clusters = await scenario.clusters(alive=True)
            assert bool(clusters) is (gone != "cluster")
            suspended = [
                bool(one.get("suspend")) for c in clusters for one in c["spec"]["workerGroupSpecs"]
            ]
            assert all(suspended) if gone == "workers" else not any(suspended)

    scenario()


@pytest.mark.parametrize("end", ["FAILED", "STOPPED"])
def test_rules_that_do_not_name_the_end_are_warned_of(end: str) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            await scenario.create(**HTTP, **rules(("DeleteCluster", "jobStatus", "SUCCEEDED", 60)))
            await ended(scenario, end)
            await asyncio.sleep(5)
            assert ("Warning", "NoDeletionRuleMatches") in await scenario.events()

    scenario()


@virtually
async def test_a_deadline_counts_as_a_failure_for_the_older_form_too() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(
            **HTTP, activeDeadlineSeconds=20, **legacy("DeleteNone", "DeleteCluster")
        )
        await scenario.until(lambda job: job.status.reason == "DeadlineExceeded")
        await asyncio.sleep(5)
        assert await scenario.clusters(alive=True) == []


@virtually
async def test_after_a_pause_only_the_most_far_reaching_rule_is_carried_out() -> None:
    wanted = rules(
        ("DeleteWorkers", "jobStatus", "SUCCEEDED", 10),
        ("DeleteCluster", "jobStatus", "SUCCEEDED", 20),
        ("DeleteSelf", "jobStatus", "SUCCEEDED", 300),
    )
    async with a_scenario() as scenario:
        async with operator(scenario):
            await scenario.create(**HTTP, **wanted)
            await ended(scenario, "SUCCEEDED")
        await asyncio.sleep(60)
        faults = faulty(scenario.plane)
        async with operator(scenario, Client(faults)):
            await asyncio.sleep(5)
            assert await scenario.clusters(alive=True) == []
            assert not any(
                one.method == "PATCH" and "/rayclusters/" in one.path for one in faults.log
            )
            await asyncio.sleep(300)
            assert await scenario.until_gone() < 1


@virtually
async def test_the_job_itself_goes_where_the_operator_says_so() -> None:
    settings = Settings(delete_ray_job_after_finish=True)
    async with a_scenario() as scenario, operator(scenario, settings=settings):
        await scenario.create(**HTTP, shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=5)
        await ended(scenario, "SUCCEEDED")
        assert 3 <= await scenario.until_gone() <= 7


@virtually
async def test_an_ended_job_is_not_run_again_by_an_edit() -> None:
    """Neither by one that makes it invalid, nor by the one that corrects it."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(**HTTP, shutdownAfterJobFinishes=True)
        await ended(scenario, "SUCCEEDED")
        await asyncio.sleep(10)
        for entrypoint in ("", "python other.py"):
            await scenario.patch(entrypoint=entrypoint)
            await asyncio.sleep(10)
            assert (await scenario.job()).status.job_deployment_status == "Complete"
        assert len(scenario.ray.executions) == 1
        assert await scenario.clusters() == []


@virtually
async def test_delete_self_works_on_a_borrowed_cluster_too() -> None:
    """KubeRay accepts `DeleteSelf` with a clusterSelector, and never carries it out."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster("shared"))
        selector = {"ray.io/cluster": "shared"}
        await scenario.create(
            **HTTP,
            **rules(("DeleteSelf", "jobStatus", "SUCCEEDED", 5)),
            rayClusterSpec=None,
            clusterSelector=selector,
        )
        await ended(scenario, "SUCCEEDED")
        assert await scenario.until_gone() < 10
        assert [one["metadata"]["name"] for one in await scenario.clusters(alive=True)] == [
            "shared"
        ]
