"""Exactly once: the operator dies after any of its writes, replies are lost, and the job runs once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import JOBS, PODS
from manta.kube.client import Client
from manta.kube.errors import ApiError
from support.faults import FaultTransport, writes
from support.raycluster import NAMESPACE
from support.rayjob_scenario import (
    KEY,
    Scenario,
    a_scenario,
    complete,
    failed,
    has_deployment_status,
    is_running,
    operator,
)
from support.virtual import faulty, running, virtually

MODES = ("K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode")
MAX_WRITES = 16
"""More than the operator makes in the life of one such job: the last ones kill it at rest."""


def lose_first_post() -> Callable[[str, str], str]:
    """A dashboard that takes the first submission, and whose answer never arrives."""
    lost = iter([True])
    return lambda method, _path: "lose-reply" if method == "POST" and next(lost, False) else ""


async def a_user(scenario: Scenario) -> None:
    """InteractiveMode: submits once, and says the id until it is taken."""
    job = await scenario.until(has_deployment_status("Waiting"))
    head = scenario.head_of(job)
    scenario.ray.start(f"{job.status.ray_cluster_name}-head-svc", head, "mine", "python x.py")
    with suppress(ApiError):
        await scenario.patch(jobId="mine")


async def killed_after(
    scenario: Scenario, count: int, then: Callable[[], Awaitable[object]] | None = None
) -> None:
    """Run an operator until its n-th write was accepted, and no longer."""
    faults = faulty(scenario.plane)
    killed = asyncio.Event()
    faults.kill_after_writes(count, on_kill=killed.set)
    async with operator(scenario, Client(faults)):
        with suppress(TimeoutError):
            async with asyncio.timeout(200):
                await killed.wait()
    if then is not None:
        await then()


async def start(scenario: Scenario, mode: str) -> None:
    scenario.loses_reply = True
    entrypoint = None if mode == "InteractiveMode" else "python main.py"
    await scenario.create(submissionMode=mode, entrypoint=entrypoint)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", range(1, MAX_WRITES + 1))
def test_killed_after_any_write_the_job_runs_once_and_succeeds(mode: str, count: int) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario(weather=lose_first_post(), finish_after=30) as scenario:
            await start(scenario, mode)
            user = [a_user(scenario)] if mode == "InteractiveMode" else []
            async with running(*user):
                await killed_after(scenario, count)
                async with operator(scenario, seed=8):
                    job = await scenario.until(complete)
            assert (job.status.job_status, job.status.failed or 0) == ("SUCCEEDED", 0)
            assert len(scenario.ray.executions) == 1
            assert len(await scenario.clusters()) == 1

    scenario()


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode"])
@pytest.mark.parametrize("count", range(4, 15, 2))
def test_a_retry_begins_one_attempt_whenever_the_operator_dies(mode: str, count: int) -> None:
    """The first attempt fails; its cluster goes, and exactly one more is made."""

    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario:
            await scenario.create(submissionMode=mode, backoffLimit=1)
            async with operator(scenario):
                first = await scenario.until(is_running)
            scenario.end(first, "FAILED", "boom")
            await killed_after(scenario, count - 3)
            async with operator(scenario, seed=9):
                second = await scenario.until(
                    lambda job: is_running(job) and job.status.job_id != first.status.job_id
                )
                scenario.end(second, "SUCCEEDED")
                job = await scenario.until(complete)
            assert (job.status.failed, job.status.succeeded) == (1, 1)
            assert len(scenario.ray.executions) == 2

    scenario()


@pytest.mark.parametrize("kind", [RAY_JOBS, RAY_CLUSTERS, JOBS], ids=lambda kind: kind.plural)
@pytest.mark.parametrize("fault", ["lost", "conflict", "503"])
@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode"])
def test_lost_replies_conflicts_and_refusals_run_nothing_twice(
    mode: str, fault: str, kind: object
) -> None:
    """Each write to this kind goes wrong at first, one way or the other."""

    def spoil(faults: FaultTransport) -> None:
        match fault:
            case "lost":
                faults.fail_after(writes(kind), times=6)  # type: ignore[arg-type]
            case "conflict":
                faults.conflict(writes(kind), times=6)  # type: ignore[arg-type]
            case _:
                faults.fail_before(writes(kind), times=6)  # type: ignore[arg-type]

    @virtually
    async def scenario() -> None:
        async with a_scenario(weather=lose_first_post(), finish_after=30) as scenario:
            faults = faulty(scenario.plane)
            spoil(faults)
            async with operator(scenario, Client(faults)):
                await scenario.create(submissionMode=mode)
                job = await scenario.until(complete)
            assert job.status.job_status == "SUCCEEDED"
            assert len(scenario.ray.executions) == 1
            assert len(await scenario.clusters()) == 1

    scenario()


@virtually
async def test_two_operators_in_turn_hand_a_job_over_once() -> None:
    """A new one takes over every few seconds, with an empty memory."""
    async with a_scenario(finish_after=60) as scenario:
        await scenario.create(submissionMode="HTTPMode")
        for seed in range(20):
            async with operator(scenario, seed=seed):
                await asyncio.sleep(1.5)
        async with operator(scenario):
            await scenario.until(complete)
        assert len(scenario.ray.executions) == 1
        assert (await scenario.client.list(RAY_JOBS, NAMESPACE)).items[0]["metadata"][
            "name"
        ] == KEY.name


# ── the head dies while nobody watches ───────────────────────────────────────────────────


async def head_comes_back_empty(scenario: Scenario, how: str) -> None:
    """As a kubelet restarts its container, or as an eviction after which somebody made another."""
    [pod] = (await scenario.client.list(PODS, NAMESPACE, labels="ray.io/node-type=head")).items
    service = f"{pod['metadata']['labels']['ray.io/cluster']}-head-svc"
    if how == "the same Pod":
        scenario.ray.restart_head(NAMESPACE, service)
        statuses = pod["status"]["containerStatuses"]
        statuses[0] |= {"restartCount": statuses[0].get("restartCount", 0) + 1}
        key, body = Key(NAMESPACE, pod["metadata"]["name"]), {"containerStatuses": statuses}
        await scenario.client.patch(PODS, key, {"status": body}, subresource="status")
        return
    meta = {key: pod["metadata"][key] for key in ("labels", "annotations", "ownerReferences")}
    again = {"metadata": {"name": "another-head", **meta}, "spec": pod["spec"]}
    await scenario.kill_head()
    await scenario.client.create(PODS, NAMESPACE, again)


HOWS = ["the same Pod", "another Pod"]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode"])
def test_a_head_that_is_lost_while_the_operator_is_down_gets_nothing_submitted_again(
    mode: str, how: str
) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario:
            await scenario.create(submissionMode=mode)
            async with operator(scenario):
                await scenario.until(is_running)
            await head_comes_back_empty(scenario, how)
            await asyncio.sleep(300)  # long after the last try of the submitter
            assert len(scenario.ray.executions) == 1
            async with operator(scenario, seed=8):
                job = await scenario.until(failed)
            assert job.status.reason == "AppFailed"
            assert "the Ray head that ran the job" in job.status.message
            assert len(scenario.ray.executions) == 1

    scenario()


@pytest.mark.parametrize("how", HOWS)
def test_a_submitter_that_comes_too_late_for_its_head_leaves_the_job_to_the_next_attempt(
    how: str,
) -> None:
    """It had submitted nothing yet when the operator died, and the head after it."""

    @virtually
    async def scenario() -> None:
        async with a_scenario(finish_after=30) as scenario:
            scenario.submits_after = 20
            await scenario.create(backoffLimit=1)
            async with operator(scenario):
                first = await scenario.until(has_deployment_status("Running"))
            await head_comes_back_empty(scenario, how)
            await asyncio.sleep(300)
            assert scenario.ray.executions == []
            scenario.submits_after = 0.5
            async with operator(scenario, seed=8):
                job = await scenario.until(complete)
            assert (job.status.failed, job.status.succeeded) == (1, 1)
            assert job.status.job_id != first.status.job_id
            assert len(scenario.ray.executions) == 1

    scenario()


def test_a_sidecars_head_that_comes_and_goes_while_the_operator_is_down_has_no_successor() -> None:
    """Its workers never came, so that the cluster is not provisioned; and nobody saw it submit."""

    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario:
            scenario.kubelet.delay = 30
            pending = {"phase": "Pending"}
            scenario.kubelet.script = lambda pod: (
                pending if pod["metadata"]["labels"]["ray.io/node-type"] == "worker" else None
            )
            await scenario.create(submissionMode="SidecarMode")
            async with operator(scenario):
                await scenario.until(lambda job: job.status.ray_cluster_status.head.pod_name, 20)
            await asyncio.sleep(60)
            assert len(scenario.ray.executions) == 1
            await scenario.kill_head()
            await asyncio.sleep(60)
            scenario.kubelet.delay = 0.2
            async with operator(scenario, seed=8):
                job = await scenario.until(failed)
                await asyncio.sleep(120)
            assert (job.status.reason, job.status.message) == (
                "AppFailed",
                "Ray head pod not found.",
            )
            assert (
                await scenario.client.list(PODS, NAMESPACE, labels="ray.io/node-type=head")
            ).items == []
            assert len(scenario.ray.executions) == 1

    scenario()


@pytest.mark.parametrize("count", range(1, MAX_WRITES + 1))
def test_a_sidecars_head_lost_while_the_operator_is_dead_runs_nothing_twice(count: int) -> None:
    """Whatever the operator had written last: also when the head was made and not yet noted."""

    @virtually
    async def scenario() -> None:
        async with a_scenario(finish_after=30) as scenario:
            await scenario.create(submissionMode="SidecarMode", entrypoint="python main.py")
            await killed_after(scenario, count)
            await asyncio.sleep(60)
            ran_before = len(scenario.ray.executions)
            await scenario.kill_head()
            await asyncio.sleep(60)
            async with operator(scenario, seed=8):
                job = await scenario.until(lambda job: complete(job) or failed(job))
                await asyncio.sleep(120)
            assert len(scenario.ray.executions) == (ran_before or int(complete(job)))
            assert len(scenario.ray.executions) <= 1

    scenario()
