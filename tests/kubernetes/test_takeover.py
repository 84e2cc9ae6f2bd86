"""On a whole control plane: KubeRay stops, Manta starts, and nothing happens to what runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import PODS
from support.fake_ray import FakeJob
from support.kuberay import RELEASES, KubeRay, would_do
from support.operator_fixture import OperatorFixture, OperatorProcess
from support.operator_objects import a_cluster, a_job, a_service
from support.raycluster import group

Json = dict[str, Any]
SERVED = {"applications": [{"name": "app", "import_path": "demo.app"}]}


async def a_scenario(operator_fixture: OperatorFixture, kuberay: KubeRay, name: str) -> None:
    """A cluster, a service that serves and a job that runs, as KubeRay leaves them."""
    await kuberay.cluster(a_cluster(operator_fixture, name, groups=[group(replicas=2)]))
    service = await kuberay.service(a_service(operator_fixture, f"{name}-s"))
    document = a_cluster(operator_fixture, f"{name}-s-old")
    document["spec"] = service["spec"]["rayClusterConfig"]
    serving = await kuberay.cluster(document, origin=service)
    await kuberay.service_services(service, serving)
    await kuberay.service_status(service, f"{name}-s-old")
    head = operator_fixture.ray.head(operator_fixture.namespace, f"{name}-s-old-head-svc")
    head.serve_config = SERVED
    app = {"status": "RUNNING", "deployments": {"Main": {"status": "HEALTHY", "message": ""}}}
    head.applications = {"app": app}
    job = await kuberay.job(
        a_job(operator_fixture, f"{name}-j", submissionMode="HTTPMode"),
        f"{name}-j-abcde",
        f"{name}-id",
    )
    await kuberay.cluster(a_cluster(operator_fixture, f"{name}-j-abcde"), origin=job)
    head = operator_fixture.ray.head(operator_fixture.namespace, f"{name}-j-abcde-head-svc")
    head.jobs[f"{name}-id"] = FakeJob("python main.py", start_time=1)


async def uids(operator_fixture: OperatorFixture, name: str) -> dict[str, set[str]]:
    return {
        resource.plural: {
            one["metadata"]["uid"]
            for one in await operator_fixture.all(resource)
            if one["metadata"]["name"].startswith(name)
        }
        for resource in (PODS, RAY_CLUSTERS, RAY_JOBS)
    }


@pytest.mark.timeout(240)
async def test_what_kuberay_left_goes_on_untouched(
    operated: OperatorFixture, leader: OperatorProcess, name: str
) -> None:
    release = RELEASES[-1]
    await leader.stop()
    try:
        kuberay = KubeRay(operated.client, release, operated.namespace)
        await a_scenario(operated, kuberay, name)
        for cluster, workers in ((name, 2), (f"{name}-s-old", 1), (f"{name}-j-abcde", 1)):
            await operated.until_pods(workers, cluster)
            await operated.until_pods(1, cluster, "head")
        before = await uids(operated, name)
    finally:
        await leader.start()
    await leader.until_leading()
    await asyncio.sleep(10)
    assert await uids(operated, name) == before
    assert await would_do(operated.client, release, operated.namespace, name) == []
    assert [one for one in operated.ray.executions if one[0].startswith(name)] == []
    service = await operated.get(RAY_SERVICES, f"{name}-s")
    assert service is not None
    assert service["status"]["activeServiceStatus"]["rayClusterName"] == f"{name}-s-old"
    assert service["status"]["serviceStatus"] == "Running"
    job = await operated.get(RAY_JOBS, f"{name}-j")
    assert job is not None
    assert (job["status"]["jobId"], job["status"]["jobStatus"]) == (f"{name}-id", "RUNNING")
    await operated.delete(RAY_JOBS, f"{name}-j")
    await operated.until_gone(RAY_JOBS, f"{name}-j")
