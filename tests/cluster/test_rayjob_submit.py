"""`manta submit` against the embedded server: what it creates runs, and Ctrl-C can stop it."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path
from typing import Any, cast

import pytest

from manta.api.meta import Key
from manta.api.ray.job import RayJob
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import CONFIG_MAPS
from manta.cli import joblogs, submit, submit_follow
from manta.cli.joblogs import NothingYetError, print_job_log
from manta.cli.package import Package, pack
from manta.cli.submission import Wanted
from manta.cli.usage import UsageError
from manta.kube.client import Client
from manta.kube.errors import ApiError, NotFound
from support.raycluster import NAMESPACE, ray_cluster
from support.rayjobworld import KEY, a_world, failed, is_running, operator
from support.virtual import virtually

BIG = Package(b"x" * 2_000_000, "a directory")


def wanted(**fields: object) -> Wanted:
    base = {"name": "demo", "namespace": NAMESPACE, "command": ("python", "train.py")}
    return Wanted(**{**base, **fields})  # type: ignore[arg-type]


@virtually
async def test_a_script_becomes_a_job_that_owns_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)")
    async with a_world(finish_after=30) as world, operator(world):
        key = await submit.create(world.client, wanted(), pack(wanted().command, None))
        carried = await world.client.get(CONFIG_MAPS, Key(NAMESPACE, "demo-package"))
        job = await world.job()
        [owner] = carried["metadata"]["ownerReferences"]
        assert owner["uid"] == job.metadata.uid
        assert await submit_follow.follow(world.client, key, out=lambda _: None) == 0
        assert len(world.ray.executions) == 1


@virtually
async def test_a_failing_job_ends_with_its_own_code() -> None:
    async with a_world() as world, operator(world):
        key = await submit.create(world.client, wanted(command=("python", "-c", "x")), None)
        following = asyncio.create_task(submit_follow.follow(world.client, key, out=lambda _: None))
        job = await world.until(is_running)
        world.end(job, "FAILED", "Job entrypoint command failed with exit code 7, last logs")
        assert await following == 7


@virtually
async def test_a_job_that_is_deleted_meanwhile_ends_with_1() -> None:
    async with a_world() as world, operator(world):
        key = await submit.create(world.client, wanted(command=("true",)), None)
        following = asyncio.create_task(submit_follow.follow(world.client, key, out=lambda _: None))
        await world.until(is_running)
        await world.client.delete(RAY_JOBS, key)
        assert await following == 1


@virtually
async def test_to_stop_what_ray_does_not_have_yet_deletes_it() -> None:
    async with a_world() as world:
        key = await submit.create(world.client, wanted(command=("true",)), None)
        await submit.stop(world.client, key)
        with pytest.raises(NotFound):
            await world.job()


@virtually
async def test_a_cluster_that_is_not_there_is_said_at_once() -> None:
    async with a_world() as world:
        with pytest.raises(UsageError, match="there is no such RayCluster"):
            await submit.create(world.client, wanted(cluster="nowhere"), None)


@virtually
async def test_a_large_package_travels_in_configmaps_that_go_with_the_job() -> None:
    """U14."""
    async with a_world(finish_after=30) as world, operator(world):
        key = await submit.create(world.client, wanted(), BIG)
        found = (await world.client.list(CONFIG_MAPS, NAMESPACE)).items
        carried = [one for one in found if one["metadata"]["name"].startswith("demo-package-")]
        job = await world.job()
        owners = [one["metadata"]["ownerReferences"][0]["uid"] for one in carried]
        assert owners == [job.metadata.uid] * 3
        assert await submit_follow.follow(world.client, key, out=lambda _: None) == 0


@virtually
async def test_a_package_for_a_cluster_that_is_there_goes_straight_to_it() -> None:
    async with a_world() as world:
        await world.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster("shared"))
        with pytest.raises(submit.SubmitError, match="shared"):
            await submit.create(world.client, wanted(cluster="shared"), BIG)
        with pytest.raises(NotFound):
            await world.job()


@virtually
async def test_a_name_that_is_taken_is_refused_and_nothing_is_left() -> None:
    """U14."""
    async with a_world() as world:
        await submit.create(world.client, wanted(command=("true",)), None)
        with pytest.raises(UsageError, match="--name demo: there is a RayJob of that name"):
            await submit.create(world.client, wanted(), BIG)
        left = (await world.client.list(CONFIG_MAPS, NAMESPACE)).items
        assert [one for one in left if "package" in one["metadata"]["name"]] == []


@virtually
async def test_a_job_that_is_refused_leaves_no_package() -> None:
    async with a_world() as world:
        with pytest.raises(ApiError):
            await submit.create(world.client, wanted(retries="two"), BIG)
        left = (await world.client.list(CONFIG_MAPS, NAMESPACE)).items
        assert [one for one in left if "package" in one["metadata"]["name"]] == []


@pytest.mark.parametrize(("answer", "stopped"), [("y", True), ("", False), ("n", False)])
def test_ctrl_c_asks_and_does_what_is_said(
    answer: str, stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    @virtually
    async def scenario() -> None:
        async with a_world() as world:
            key = await submit.create(world.client, wanted(command=("true",)), None)
            monkeypatch.setattr(submit, "ask", lambda _question: answer)
            monkeypatch.setattr(submit, "open_client", world.opened)
            assert await submit._interrupted(Namespace(), key) == 130
            left = (await world.client.list(RAY_JOBS, NAMESPACE)).items
            assert bool(left) is not stopped

    scenario()


@virtually
async def test_the_log_of_a_job_that_printed_nothing_yet_says_so() -> None:
    async with a_world() as world:
        await world.create()
        with pytest.raises(NothingYetError, match="has printed nothing yet"):
            await print_job_log(world.client, KEY, follow=False, out=lambda _: None)


@virtually
async def test_a_log_that_went_with_its_cluster_is_told_with_rays_last_words() -> None:
    async with a_world() as world, operator(world):
        await world.create(submissionMode="HTTPMode", shutdownAfterJobFinishes=True)
        world.end(await world.until(is_running), "FAILED", "boom: the last lines")
        await world.until(failed)
        await asyncio.sleep(10)
        assert await world.clusters() == []
        with pytest.raises(NothingYetError, match="K8sJobMode keeps it") as told:
            await print_job_log(world.client, KEY, follow=False, out=lambda _: None)
        assert "boom: the last lines" in str(told.value)


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

    async def stream(_: object, key: Key, *__: object) -> None:
        streamed.append(key.name)

    class Listing:
        async def get(self, *_: object, **__: object) -> RayJob:
            return RayJob()

        async def list(self, *_: object, **__: object) -> Namespace:
            return Namespace(items=pods)

    monkeypatch.setattr(joblogs, "stream_pod", stream)
    await print_job_log(cast("Client", Listing()), KEY, follow=False)
    assert streamed == [shown]
