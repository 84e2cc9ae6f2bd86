"""Our examples and KubeRay's samples: accepted, valid, and made into the Pods they describe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import SECRETS
from manta.rules.settings import FeatureGates, Settings
from support.certmanager import CertManager, cert_manager_crds
from support.fakenodes import fake_cluster
from support.peers import kuberay_samples
from support.raycrds import ray_crds
from support.rayoperator import Operated, start_operator
from support.virtual import running, virtually

EXAMPLES = Path(__file__).parents[2] / "examples"
OURS = sorted([*EXAMPLES.glob("raycluster-*.yaml"), EXAMPLES / "quickstart.yaml"])
KUBERAYS = kuberay_samples("ray-cluster.")
ALL_GATES = Settings(
    gates=FeatureGates(
        gcs_fault_tolerance_embedded_storage=True,
        ray_cluster_network_policy=True,
        ray_cluster_history_server=True,
        ray_cluster_mtls=True,
    ),
    cert_manager=True,
)


def cluster_in(path: Path) -> dict[str, Any]:
    """The file's RayCluster, named after the file: KubeRay's samples share names."""
    documents = yaml.safe_load_all(path.read_text())
    [manifest] = [one for one in documents if one and one["kind"] == "RayCluster"]
    name = path.stem.replace(".", "-")
    return {**manifest, "metadata": {**manifest["metadata"], "name": name}}


@pytest.mark.parametrize("paths", [OURS, KUBERAYS], ids=["ours", "kuberays"])
@virtually
async def test_every_example_becomes_a_ready_cluster(paths: list[Path]) -> None:
    if paths is KUBERAYS and not paths:
        pytest.skip("KubeRay's samples are not on this machine")
    assert len(paths) >= 8
    crds = [*ray_crds(), *cert_manager_crds()]
    async with (
        fake_cluster(3, crds=crds, extended={"nvidia.com/gpu": "8"}) as cluster,
        running(CertManager(cluster.client).run()),
        start_operator(cluster, ALL_GATES) as op,
    ):
        for path in paths:
            await op.client.create(RAY_CLUSTERS, "default", cluster_in(path))
        for path in paths:
            await _becomes_ready(op, cluster_in(path))
        assert await op.cluster.events("InvalidRayClusterSpec") == []


async def _becomes_ready(op: Operated, manifest: dict[str, Any]) -> None:
    name, spec = manifest["metadata"]["name"], manifest["spec"]
    if spec.get("suspend"):
        await op.until(lambda one: one.status.state == "suspended", name)
        await op.patch({"spec": {"suspend": False}}, name)
    found = await op.until_ready(name)
    workers = sum(
        one.get("replicas", 0) * one.get("numOfHosts", 1)
        for one in spec.get("workerGroupSpecs", ())
    )
    assert found.status.desired_worker_replicas == workers
    assert len(await op.pods(name)) == workers + 1
    if spec.get("authOptions"):
        # Where Kubernetes issues the tokens, a Secret would be of no use (C89).
        drawn = not spec["authOptions"].get("enableK8sTokenAuth")
        assert (name in await op.cluster.names(SECRETS)) is drawn
