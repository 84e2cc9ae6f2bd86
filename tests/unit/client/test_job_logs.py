"""Which submitter Pods are followed, and for how long: by watches, on the embedded server."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_JOBS
from manta.api.resources import PODS
from manta.client.job_logs import submitter_pods
from manta.client.watch import watch_object
from manta.kube.client import Client
from manta.kube.errors import Unreachable
from support.raycrds import ray_crds
from support.rayjob import ray_job
from support.virtual import virtual_plane, virtually

KEY = Key("default", "demo")
LABELS = {"ray.io/originated-from-cr-name": "demo", "batch.kubernetes.io/job-name": "demo"}


async def start_pod(client: Client, name: str) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    body = {"metadata": {"name": name, "labels": LABELS}, "spec": spec}
    await client.create(PODS, "default", body)
    await asyncio.sleep(1)
    status = {"containerStatuses": [{"name": "c", "state": {"running": {}}, "ready": True,
                                     "image": "i", "imageID": "", "restartCount": 0}]}  # fmt: skip
    await client.patch(PODS, Key("default", name), {"status": status}, subresource="status")


async def end_job(client: Client) -> None:
    body = {"status": {"jobDeploymentStatus": "Complete"}}
    await client.patch(RAY_JOBS, KEY, body, subresource="status")


@virtually
async def test_each_submitter_is_named_once_it_runs_until_the_job_has_ended() -> None:
    async with virtual_plane(crds=ray_crds()) as plane:
        await plane.client.create(RAY_JOBS, "default", ray_job("demo"))
        found: list[str] = []

        async def follow() -> None:
            async with aclosing(submitter_pods(plane.client, KEY)) as names:
                async for name in names:
                    found.append(name)

        following = asyncio.create_task(follow())
        await start_pod(plane.client, "first")
        await asyncio.sleep(1)
        assert found == ["first"]
        await start_pod(plane.client, "second")
        await asyncio.sleep(1)
        assert found == ["first", "second"]
        assert not following.done()
        await end_job(plane.client)
        await following
        assert found == ["first", "second"]


@virtually
async def test_the_submitter_of_a_job_that_has_ended_is_named_too() -> None:
    async with virtual_plane(crds=ray_crds()) as plane:
        await plane.client.create(RAY_JOBS, "default", ray_job("demo"))
        await start_pod(plane.client, "first")
        await end_job(plane.client)
        assert [name async for name in submitter_pods(plane.client, KEY)] == ["first"]


@virtually
async def test_an_error_of_a_watch_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    async with virtual_plane(crds=ray_crds()) as plane:
        await plane.client.create(RAY_JOBS, "default", ray_job("demo"))
        real = plane.client.list

        async def refused(resource, *args, **options):
            if resource == PODS:
                raise Unreachable("the line is cut", sent=True)
            return await real(resource, *args, **options)

        monkeypatch.setattr(plane.client, "list", refused)
        with pytest.raises(Unreachable, match="the line is cut"):
            await anext(submitter_pods(plane.client, KEY))


@virtually
async def test_an_object_is_watched_until_it_is_gone() -> None:
    async with virtual_plane(crds=ray_crds()) as plane:
        await plane.client.create(RAY_JOBS, "default", ray_job("demo"))
        stages: list[object] = []

        async def follow() -> None:
            async for document in watch_object(plane.client, RAY_JOBS, KEY):
                stages.append(
                    document and (document.get("status") or {}).get("jobDeploymentStatus")
                )

        following = asyncio.create_task(follow())
        await asyncio.sleep(1)
        await end_job(plane.client)
        await asyncio.sleep(1)
        await plane.client.delete(RAY_JOBS, KEY)
        await following
        assert stages == [None, "Complete", None]
