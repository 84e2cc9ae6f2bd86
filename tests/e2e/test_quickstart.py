"""The first hour of a user: real Ray processes, as `make up` starts them. The part of tests/e2e that `make test` runs."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

from e2e.conftest import ROOT, Machine
from e2e.serving import Life, Served
from manta.localplane.node.host.plane_id import plane_id

pytestmark = pytest.mark.smoke
QUICKSTART = ROOT / "examples/quickstart.yaml"
HEAD = "svc/quickstart-head-svc"


def test_the_quickstart_becomes_ready_and_runs_tasks_on_every_node(machine: Machine) -> None:
    machine.bring(QUICKSTART)
    pods = machine.list("pods", "ray.io/cluster=quickstart")
    assert {pod["metadata"]["labels"]["ray.io/node-type"] for pod in pods} == {"head", "worker"}
    script = (
        "import ray, json; ray.init(logging_level='error');"
        "f = ray.remote(num_cpus=1, scheduling_strategy='SPREAD')(lambda: __import__('time').sleep(1) or"
        " ray.util.get_node_ip_address());"
        "print(json.dumps(sorted(set(ray.get([f.remote() for _ in range(6)])))))"
    )
    answer = machine.exec(HEAD, "python", "-c", script)
    assert json.loads(answer.splitlines()[-1]) == sorted(pod["status"]["podIP"] for pod in pods)


def test_the_dashboard_answers_at_the_heads_address(machine: Machine) -> None:
    if not machine.is_here:
        pytest.skip("addresses of that cluster's Pods cannot be reached from here")
    address = machine.cluster_ready("quickstart")["status"]["head"]["podIP"]
    with urllib.request.urlopen(f"http://{address}:8265/api/version", timeout=10) as answer:
        assert json.load(answer)["ray_version"] == "2.60.0"


@pytest.mark.embedded_only(reason="`manta status` tells of a plane")
def test_logs_and_status_tell_what_runs(machine: Machine) -> None:
    assert "Ray runtime started" in machine.manta("logs", HEAD).stdout
    status = machine.manta("status").stdout
    assert "quickstart-head" in status
    assert "RayCluster" in status


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
def test_kubectl_works_as_on_kubernetes(machine: Machine, tmp_path: Path) -> None:
    listed = kubectl(machine, "get", "raycluster,pods,svc")
    assert "raycluster.ray.io/quickstart" in listed
    assert "service/quickstart-head-svc" in listed
    assert "Ray runtime started" in kubectl(machine, "logs", HEAD)
    assert "Active:" in kubectl(machine, "exec", HEAD, "--", "ray", "status")
    (tmp_path / "there").write_text("and back")
    head = machine.cluster_ready("quickstart")["status"]["head"]["podName"]
    kubectl(machine, "cp", str(tmp_path / "there"), f"{head}:/tmp/file")
    kubectl(machine, "cp", f"{head}:/tmp/file", str(tmp_path / "back"))
    assert (tmp_path / "back").read_text() == "and back"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
def test_a_job_is_submitted_by_rays_own_client_through_a_forwarded_port(machine: Machine) -> None:
    command = ["kubectl", "port-forward", "svc/quickstart-head-svc", ":8265"]
    environment = {**os.environ, "KUBECONFIG": str(machine.directory / "kubeconfig")}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True
    ) as forwarding:
        try:
            assert forwarding.stdout is not None
            port = forwarding.stdout.readline().split("127.0.0.1:")[1].split()[0]
            submit = ["job", "submit", "--address", f"http://127.0.0.1:{port}", "--"]
            said = ray(*submit, "python", "-c", "import ray; ray.init(); print('two', 1 + 1)")
            assert "two 2" in said
            assert "succeeded" in said
        finally:
            forwarding.terminate()


def kubectl(machine: Machine, *arguments: str) -> str:
    environment = {**os.environ, "KUBECONFIG": str(machine.directory / "kubeconfig")}
    done = subprocess.run(
        ["kubectl", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ray(*arguments: str) -> str:
    """Ray's own program, from the environment that stands for the image."""
    cache = Path.home() / ".cache" / "manta" / "images"
    program = next(cache.glob("ray-default-serve-2.60.0-*/bin/ray"), None)
    if program is None:
        pytest.skip("Ray's own program is not on this machine: `manta up` brings it")
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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

    def ended() -> bool:
        return machine.get("rayjob", "hello").get("status", {}).get("jobDeploymentStatus") in (
            "Complete",
            "Failed",
        )

    machine.until("the job to end", ended)
    assert machine.get("rayjob", "hello")["status"]["jobStatus"] == "SUCCEEDED"


def test_the_sdk_creates_a_cluster_and_runs_jobs_sync_and_async(
    machine: Machine, tmp_path: Path
) -> None:
    import manta

    script = (
        "import ray; ray.init(); square = ray.remote(lambda n: n * n);"
        "print('squares', ray.get([square.remote(n) for n in (2, 3)]))"
    )
    (tmp_path / "train.py").write_text(script)

    async def as_async(image: str) -> list[str]:
        async with manta.AsyncClient(plane=machine.directory, namespace=machine.namespace) as ray:
            head = manta.HeadGroup(cpu="500m")
            made = await ray.clusters.create(name="sdk-async", image=image, head=head, workers=[])
            async with made as own:
                await own.wait_ready()
                job = await own.submit("python train.py", working_dir=tmp_path)
                lines = [line async for line in job.logs(follow=True)]
                await job.result()
                return lines

    with manta.Client(plane=machine.directory, namespace=machine.namespace) as ray:
        there = ray.clusters.get("quickstart").object.spec.head_group_spec.template["spec"]
        image = there["containers"][0]["image"]
        made = ray.clusters.create(
            name="sdk",
            image=image,
            head=manta.HeadGroup(cpu="500m"),
            workers=manta.WorkerGroup(replicas=1, cpu="500m", memory="1Gi"),
        )
        with made as one:
            one.wait_ready()
            assert one.status.ready_worker_replicas == 1
            job = one.submit("python train.py", working_dir=tmp_path, name="sdk-sync")
            assert "squares [4, 9]" in asyncio.run(as_async(image))
            assert "squares [4, 9]" in list(job.logs(follow=True))
            assert job.result().job_status == "SUCCEEDED"


def test_a_service_answers(machine: Machine) -> None:
    life = Life(machine, Served())
    life.start()
    call = (
        "import urllib.request as web;"
        "print(web.urlopen('http://words-serve-svc:8000/count', b'the cat and the dog').read().decode())"
    )
    answer = json.loads(machine.exec(HEAD, "python", "-c", call).splitlines()[-1])
    assert answer == {"words": {"the": 2, "cat": 1, "and": 1, "dog": 1}, "edition": "0"}
    life.end()


def test_suspend_gives_the_processes_back_and_resume_brings_them_again(machine: Machine) -> None:
    _patch(machine, {"suspend": True})
    machine.until("no Pods", lambda: not machine.list("pods", "ray.io/cluster=quickstart"), 120)
    _patch(machine, {"suspend": False})
    machine.cluster_ready("quickstart")


def _patch(machine: Machine, spec: dict[str, object]) -> None:
    """Merge this into the spec of the RayCluster, as `kubectl patch --type=merge` does."""
    from manta.api.meta import Key
    from manta.api.ray.resources import RAY_CLUSTERS
    from manta.kube.config import load
    from manta.kube.connect import connect

    async def patch() -> None:
        async with await connect(load(Path(machine.directory / "kubeconfig"))) as client:
            await client.patch(RAY_CLUSTERS, Key(machine.namespace, "quickstart"), {"spec": spec})

    asyncio.run(patch())


@pytest.mark.embedded_only(reason="`manta down` ends a plane")
def test_down_leaves_no_process_and_no_interface(machine: Machine) -> None:
    machine.manta("down")
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(machine.directory) not in processes.stdout
    links = [path.name for path in Path("/sys/class/net").iterdir()]
    assert not [name for name in links if plane_id(machine.directory / "node") in name]
