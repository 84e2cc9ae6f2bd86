"""A program that uses every part of the SDK; `test_user_types` checks its types, nobody runs it."""

from __future__ import annotations

import asyncio
from typing import assert_type

import manta


def everything(yaml: str) -> None:
    with manta.Client(namespace="team", context="prod", cleanup=True) as ray:
        cluster = ray.clusters.create(
            name="demo",
            image="rayproject/ray:2.60.0",
            head=manta.HeadGroup(cpu=2, memory="4Gi"),
            workers=[manta.WorkerGroup(replicas=2, cpu=4, gpu=1, max_replicas=8)],
            autoscale=True,
        )
        assert_type(cluster, manta.Cluster)
        assert_type(cluster.wait_ready(timeout=60, progress=print), manta.Cluster)
        assert_type(cluster.object, manta.RayCluster)
        assert_type(cluster.status, manta.RayClusterStatus)
        assert_type(cluster.status.ready_worker_replicas, int)
        assert_type(ray.clusters.create(manta.RayCluster.from_yaml(yaml)), manta.Cluster)
        assert_type(ray.clusters.create(yaml), manta.Cluster)
        cluster.wait_for(lambda one: one.status.state == "ready", what="ready")

        job = cluster.submit("python train.py", working_dir=".", pip=["numpy"], env={"A": "b"})
        assert_type(job, manta.Job)
        for line in job.logs(follow=True):
            assert_type(line, str)
        assert_type(job.result(), manta.RayJobStatus)
        try:
            job.result(timeout=10)
        except manta.JobFailed as failed:
            assert_type(failed.exit_code, int)
        except manta.WaitTimeout as late:
            assert_type(late.why, str)

        service = ray.services.create(name="text", serve_config={"applications": []})
        assert_type(service.wait_ready().status, manta.RayServiceStatuses)
        cron = ray.cron_jobs.create(name="nightly", schedule="@daily", entrypoint="python x.py")
        assert_type(cron.trigger(), manta.Job)
        assert_type(cron.status.last_schedule_time, str | None)
        for one in ray.clusters.list(labels={"team": "a"}):
            assert_type(one, manta.Cluster)
        assert_type(ray.jobs.get("demo"), manta.Job)
        assert_type(ray.services.apply(yaml), manta.Service)


async def everything_async() -> None:
    async with manta.AsyncClient(server="https://10.0.0.1:6443", token="t") as ray:
        async with await ray.clusters.create(name="demo") as cluster:
            assert_type(await cluster.wait_ready(), manta.AsyncCluster)
            job = await cluster.submit(["python", "-c", "1"])
            async for line in job.logs(follow=True):
                assert_type(line, str)
            assert_type(await job.result(), manta.RayJobStatus)
        found = await asyncio.gather(ray.jobs.list(), ray.services.list())
        assert_type(found[0][0], manta.AsyncJob)


def manifests() -> None:
    cluster = manta.build_cluster(name="demo", workers=manta.WorkerGroup())
    assert_type(cluster.to_yaml(), str)
    assert_type(cluster.spec.worker_group_specs[0], manta.WorkerGroupSpec)
    assert_type(manta.RayJob.from_yaml("kind: RayJob").spec.entrypoint, str)
