"""`manta submit` against the embedded server: what it creates runs, and Ctrl-C can stop it."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from manta.api.meta import Key
from manta.api.ray.job import RayJob
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import CONFIG_MAPS
from manta.api.usage import UsageError
from manta.cli import submit
from manta.cli.output import follow_job
from manta.client import job_logs, jobs
from manta.client.job_logs import NoLogError, print_job_log
from manta.client.package import Package, pack
from manta.client.submission import Submission
from manta.kube.client import Client
from manta.kube.errors import ApiError, NotFound
from support.raycluster import NAMESPACE, ray_cluster
from support.rayjob_scenario import KEY, a_scenario, failed, is_running, operator
from support.virtual import virtually

BIG = Package(b"x" * 2_000_000, "a directory")


def submission(**fields: object) -> Submission:
    base = {"name": "demo", "namespace": NAMESPACE, "command": ("python", "train.py")}
    return Submission(**{**base, **fields})  # type: ignore[arg-type]


@virtually
async def test_a_script_becomes_a_job_that_owns_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)")
    async with a_scenario(finish_after=30) as scenario, operator(scenario):
        key = await jobs.create(scenario.client, submission(), pack(submission().command, None))
        carried = await scenario.client.get(CONFIG_MAPS, Key(NAMESPACE, "demo-package"))
        job = await scenario.job()
        [owner] = carried["metadata"]["ownerReferences"]
        assert owner["uid"] == job.metadata.uid
        assert await follow_job.follow(scenario.client, key, out=lambda _: None) == 0
        assert len(scenario.ray.executions) == 1


@virtually
async def test_a_failing_job_ends_with_its_own_code() -> None:
    async with a_scenario() as scenario, operator(scenario):
        key = await jobs.create(scenario.client, submission(command=("python", "-c", "x")), None)
        following = asyncio.create_task(follow_job.follow(scenario.client, key, out=lambda _: None))
        job = await scenario.until(is_running)
        scenario.end(job, "FAILED", "Job entrypoint command failed with exit code 7, last logs")
        assert await following == 7


@virtually
async def test_a_job_that_is_deleted_meanwhile_ends_with_1() -> None:
    async with a_scenario() as scenario, operator(scenario):
        key = await jobs.create(scenario.client, submission(command=("true",)), None)
        following = asyncio.create_task(follow_job.follow(scenario.client, key, out=lambda _: None))
        await scenario.until(is_running)
        await scenario.client.delete(RAY_JOBS, key)
        assert await following == 1


@virtually
async def test_to_stop_what_ray_does_not_have_yet_deletes_it() -> None:
    async with a_scenario() as scenario:
        key = await jobs.create(scenario.client, submission(command=("true",)), None)
        await jobs.stop(scenario.client, key)
        with pytest.raises(NotFound):
            await scenario.job()


@virtually
async def test_a_cluster_that_is_not_there_is_said_at_once() -> None:
    async with a_scenario() as scenario:
        with pytest.raises(UsageError, match="has no such RayCluster"):
            await jobs.create(scenario.client, submission(cluster="nowhere"), None)


@virtually
async def test_a_large_package_travels_in_configmaps_that_go_with_the_job() -> None:
    """U14."""
    async with a_scenario(finish_after=30) as scenario, operator(scenario):
        key = await jobs.create(scenario.client, submission(), BIG)
        found = (await scenario.client.list(CONFIG_MAPS, NAMESPACE)).items
        carried = [one for one in found if one["metadata"]["name"].startswith("demo-package-")]
        job = await scenario.job()
        owners = [one["metadata"]["ownerReferences"][0]["uid"] for one in carried]
        assert owners == [job.metadata.uid] * 3
        assert await follow_job.follow(scenario.client, key, out=lambda _: None) == 0


@virtually
async def test_a_package_for_a_cluster_that_is_there_goes_straight_to_it() -> None:
    async with a_scenario() as scenario:
        await scenario.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster("shared"))
        with pytest.raises(jobs.SubmitError, match="shared"):
            await jobs.create(scenario.client, submission(cluster="shared"), BIG)
        with pytest.raises(NotFound):
            await scenario.job()


@virtually
async def test_a_name_that_is_taken_is_refused_and_nothing_is_left() -> None:
    """U14."""
    async with a_scenario() as scenario:
        await jobs.create(scenario.client, submission(command=("true",)), None)
        with pytest.raises(
            UsageError, match="--name demo: namespace default has a RayJob of that name"
        ):
            await jobs.create(scenario.client, submission(), BIG)
        left = (await scenario.client.list(CONFIG_MAPS, NAMESPACE)).items
        assert [one for one in left if "package" in one["metadata"]["name"]] == []


@virtually
async def test_a_job_that_is_refused_leaves_no_package() -> None:
    async with a_scenario() as scenario:
        with pytest.raises(ApiError):
            await jobs.create(scenario.client, submission(retries="two"), BIG)
        left = (await scenario.client.list(CONFIG_MAPS, NAMESPACE)).items
        assert [one for one in left if "package" in one["metadata"]["name"]] == []


@pytest.mark.parametrize(("answer", "stopped"), [("y", True), ("", False), ("n", False)])
def test_ctrl_c_asks_and_does_what_is_said(
    answer: str, stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario:
            key = await jobs.create(scenario.client, submission(command=("true",)), None)
            monkeypatch.setattr(submit, "ask", lambda _question: answer)
            monkeypatch.setattr(submit, "open_client", scenario.opened)
            assert await submit._interrupted(Namespace(), key) == 130
            left = (await scenario.client.list(RAY_JOBS, NAMESPACE)).items
            assert bool(left) is not stopped

    scenario()


@virtually
async def test_the_log_of_a_job_that_printed_nothing_yet_says_so() -> None:
    async with a_scenario() as scenario:
        await scenario.create()
        with pytest.raises(NoLogError, match="has no log yet"):
            await print_job_log(scenario.client, KEY, follow=False, out=lambda _: None)


@virtually
async def test_a_log_that_went_with_its_cluster_is_reported_with_rays_last_words() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(submissionMode="HTTPMode", shutdownAfterJobFinishes=True)
        scenario.end(await scenario.until(is_running), "FAILED", "boom: the last lines")
        await scenario.until(failed)
        await asyncio.sleep(10)
        assert await scenario.clusters() == []
        with pytest.raises(NoLogError, match="K8sJobMode keeps it") as reported:
            await print_job_log(scenario.client, KEY, follow=False, out=lambda _: None)
        assert "boom: the last lines" in str(reported.value)


def a_submitter_pod(name: str, born: int, exit_code: int) -> dict[str, Any]:
    labels = {"ray.io/originated-from-cr-name": "demo", "batch.kubernetes.io/job-name": "demo"}
    ended = {"state": {"terminated": {"exitCode": exit_code}}}
    return {
        "metadata": {
            "name": name,
            "labels": labels,
            "creationTimestamp": f"2026-01-01T12:00:0{born}Z",
        },
        "status": {"containerStatuses": [ended]},
    }


@pytest.mark.parametrize(
    ("codes", "shown"),
    [((1, 86), "pod-0"), ((1, 1), "pod-1"), ((86, 86), "pod-1")],
)
async def test_the_log_is_that_of_a_submitter_that_followed_the_job(
    codes: tuple[int, ...], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of one that was started again, met another head and had nothing to print."""
    pods = [a_submitter_pod(f"pod-{at}", at, code) for at, code in enumerate(codes)]
    streamed: list[str] = []

    async def log(_: object, key: Key, **_options: object) -> AsyncIterator[bytes]:
        streamed.append(key.name)
        yield b""

    class Listing:
        async def get(self, *_: object, **__: object) -> RayJob:
            return RayJob()

        async def list(self, *_: object, **__: object) -> Namespace:
            return Namespace(items=pods)

    monkeypatch.setattr(job_logs, "pod_log", log)
    await print_job_log(cast("Client", Listing()), KEY, follow=False)
    assert streamed == [shown]
