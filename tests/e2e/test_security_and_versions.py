"""Token authentication, two clusters side by side, and a second Ray version beside the first."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from e2e.conftest import Machine
from e2e.objects import cluster, container

OLD = "2.54.0"


@pytest.fixture(autouse=True)
def reach(machine: Machine) -> None:
    if not machine.is_here:
        pytest.skip("addresses of that cluster's Pods cannot be reached from here")


def test_a_cluster_with_tokens_refuses_who_has_none(machine: Machine) -> None:
    machine.apply(cluster("guarded", workers=0, authOptions={"mode": "token"}))
    address = machine.cluster_ready("guarded")["status"]["head"]["podIP"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{address}:8265/api/jobs/", timeout=10)
    refused.value.close()
    assert refused.value.code in (401, 403)
    machine.apply(
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": "trusted"},
            "spec": {
                "entrypoint": "python -c 'print(1)'",
                "submissionMode": "HTTPMode",
                "clusterSelector": {"ray.io/cluster": "guarded"},
            },
        }
    )
    machine.until(
        "the operator's own job to succeed",
        lambda: machine.get("rayjob", "trusted").get("status", {}).get("jobStatus") == "SUCCEEDED",
    )
    machine.manta("delete", "raycluster", "guarded")


@pytest.mark.embedded_only(reason="one image of Ray is there")
def test_two_clusters_of_different_ray_versions_run_side_by_side(machine: Machine) -> None:
    old = cluster("old", workers=0)
    old["spec"]["rayVersion"] = OLD
    old_head = {**container("ray-head", memory="2Gi"), "image": f"rayproject/ray:{OLD}"}
    old["spec"]["headGroupSpec"]["template"]["spec"]["containers"] = [old_head]
    machine.apply(old, cluster("new", workers=0))
    versions = {}
    for name in ("old", "new"):
        address = machine.cluster_ready(name)["status"]["head"]["podIP"]
        with urllib.request.urlopen(f"http://{address}:8265/api/version", timeout=10) as answer:
            versions[name] = json.load(answer)["ray_version"]
    assert versions == {"old": OLD, "new": "2.60.0"}
    machine.manta("delete", "raycluster", "old", "new")
