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
from support.rayjob_scenario import Scenario, a_scenario, complete, has_deployment_status, operator
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
    async with a_scenario(finish_after=10) as scenario, operator(scenario):
        for document in jobs_in(path):
            if selector := document["spec"].get("clusterSelector"):
                cluster = ray_cluster(selector["ray.io/cluster"])
                await scenario.client.create(RAY_CLUSTERS, NAMESPACE, cluster)
            await scenario.client.create(RAY_JOBS, NAMESPACE, document)
            key = Key(NAMESPACE, document["metadata"]["name"])
            if document["spec"].get("submissionMode") == "InteractiveMode":
                await _submit_as_user(scenario, key)
            job = await scenario.until(complete, key=key)
            assert job.status.job_status == "SUCCEEDED"


async def _submit_as_user(scenario: Scenario, key: Key) -> None:
    job = await scenario.until(has_deployment_status("Waiting"), key=key)
    service = f"{job.status.ray_cluster_name}-head-svc"
    scenario.ray.start(service, scenario.head_of(job), "mine", "python x.py")
    await scenario.client.patch(RAY_JOBS, key, {"spec": {"jobId": "mine"}})


def test_there_is_an_example_of_every_mode() -> None:
    found = {
        document["spec"].get("submissionMode", "K8sJobMode")
        for path in EXAMPLES
        for document in jobs_in(path)
    }
    assert found == {"K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode"}
