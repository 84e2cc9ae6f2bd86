"""The first hour of a user: real Ray processes, as `make up` starts them."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from pathlib import Path

from e2e.conftest import ROOT, Machine
from manta.localplane.node.planeid import plane_id

QUICKSTART = str(ROOT / "examples/quickstart.yaml")


def test_the_quickstart_becomes_ready_and_runs_tasks_on_every_node(machine: Machine) -> None:
    machine.manta("up", "--with", QUICKSTART)
    pods = machine.list("pods", "ray.io/cluster=quickstart")
    assert {pod["metadata"]["labels"]["ray.io/node-type"] for pod in pods} == {"head", "worker"}
    script = (
        "import ray, json; ray.init(logging_level='error');"
        "f = ray.remote(num_cpus=1, scheduling_strategy='SPREAD')(lambda: __import__('time').sleep(1) or"
        " ray.util.get_node_ip_address());"
        "print(json.dumps(sorted(set(ray.get([f.remote() for _ in range(6)])))))"
    )
    answer = machine.exec("quickstart-head", "python", "-c", script)
    assert json.loads(answer.splitlines()[-1]) == sorted(pod["status"]["podIP"] for pod in pods)


def test_the_dashboard_answers_at_the_heads_address(machine: Machine) -> None:
    address = machine.cluster_ready("quickstart")["status"]["head"]["podIP"]
    with urllib.request.urlopen(f"http://{address}:8265/api/version", timeout=10) as answer:
        assert json.load(answer)["ray_version"] == "2.60.0"


def test_logs_and_status_tell_what_runs(machine: Machine) -> None:
    assert "Ray runtime started" in machine.manta("logs", "quickstart-head").stdout
    status = machine.manta("status").stdout
    assert "quickstart-head" in status
    assert "RayCluster" in status


def test_a_job_runs_once_on_the_cluster(machine: Machine) -> None:
    machine.apply(
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": "hello"},
            "spec": {
                "entrypoint": "python -c \"print('hello from', __import__('os').getpid())\"",
                "submissionMode": "HTTPMode",
                "clusterSelector": {"ray.io/cluster": "quickstart"},
            },
        }
    )

    def ended() -> str:
        return machine.get("rayjob", "hello").get("status", {}).get("jobDeploymentStatus") in (
            "Complete",
            "Failed",
        )

    machine.until("the job to end", ended)
    assert machine.get("rayjob", "hello")["status"]["jobStatus"] == "SUCCEEDED"


def test_suspend_gives_the_processes_back_and_resume_brings_them_again(machine: Machine) -> None:
    document = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "quickstart"},
        "spec": {"suspend": True},
    }
    _patch(machine, document)
    machine.until("no Pods", lambda: not machine.list("pods", "ray.io/cluster=quickstart"), 120)
    document["spec"] = {"suspend": False}
    _patch(machine, document)
    machine.cluster_ready("quickstart")


def _patch(machine: Machine, document: dict[str, object]) -> None:
    """Merge a part of an object, as `kubectl patch --type=merge` does."""
    import asyncio

    from manta.api.meta import Key
    from manta.api.ray.resources import RAY_CLUSTERS
    from manta.kube.connect import connect
    from manta.kube.credentials import load

    async def patch() -> None:
        async with await connect(load(Path(machine.directory / "kubeconfig"))) as client:
            key = Key("default", str(document["metadata"]["name"]))  # type: ignore[index]
            await client.patch(RAY_CLUSTERS, key, {"spec": document["spec"]})

    asyncio.run(patch())


def test_down_leaves_no_process_and_no_interface(machine: Machine) -> None:
    machine.manta("down")
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(machine.directory) not in processes.stdout
    links = [path.name for path in Path("/sys/class/net").iterdir()]
    assert not [name for name in links if plane_id(machine.directory / "node") in name]
