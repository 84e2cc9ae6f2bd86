"""Our examples and KubeRay's samples of RayJobs: accepted, valid, and run to their end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from support.peers import kuberay_samples
from support.raycluster import NAMESPACE, ray_cluster
from support.rayjobworld import World, a_world, complete, operator, stage
from support.virtual import virtually

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("rayjob*.yaml"))
SAMPLES = kuberay_samples("ray-job")


def jobs_in(path: Path) -> list[dict[str, Any]]:
    documents = [one for one in yaml.safe_load_all(path.read_text()) if one]
    return [one for one in documents if one["kind"] == "RayJob"]


@pytest.mark.parametrize("path", [*EXAMPLES, *SAMPLES], ids=lambda path: path.name)
@virtually
async def test_it_runs_to_its_end(path: Path) -> None:
    async with a_world(finish_after=10) as world, operator(world):
        for document in jobs_in(path):
            if selector := document["spec"].get("clusterSelector"):
                cluster = ray_cluster(selector["ray.io/cluster"])
                await world.client.create(RAY_CLUSTERS, NAMESPACE, cluster)
            await world.client.create(RAY_JOBS, NAMESPACE, document)
            key = Key(NAMESPACE, document["metadata"]["name"])
            if document["spec"].get("submissionMode") == "InteractiveMode":
                await _submit_as_user(world, key)
            job = await world.until(complete, key=key)
            assert job.status.job_status == "SUCCEEDED"


async def _submit_as_user(world: World, key: Key) -> None:
    job = await world.until(stage("Waiting"), key=key)
    service = f"{job.status.ray_cluster_name}-head-svc"
    world.ray.start(service, world.head_of(job), "mine", "python x.py")
    await world.client.patch(RAY_JOBS, key, {"spec": {"jobId": "mine"}})


def test_there_is_an_example_of_every_mode() -> None:
    found = {
        document["spec"].get("submissionMode", "K8sJobMode")
        for path in EXAMPLES
        for document in jobs_in(path)
    }
    assert found == {"K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode"}
