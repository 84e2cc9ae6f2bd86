"""Ray on GPUs of `manta up`, which are fake: what Ray counts, and what a task sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import Machine

pytestmark = pytest.mark.embedded_only(reason="`--fake-gpus` is of `manta up`")

CLUSTER = """
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: gpu}
spec:
  rayVersion: 2.60.0
  headGroupSpec:
    rayStartParams: {num-cpus: "0"}
    template:
      spec:
        containers:
          - {name: ray-head, image: "rayproject/ray:2.60.0-gpu"}
  workerGroupSpecs:
    - groupName: gpu
      replicas: 1
      template:
        spec:
          containers:
            - name: ray-worker
              image: rayproject/ray:2.60.0-gpu
              resources:
                requests: {cpu: 100m}
                limits: {cpu: 1, nvidia.com/gpu: 1}
"""
TASK = (
    "import ray, json, os; ray.init(logging_level='error');"
    "f = ray.remote(num_cpus=0, num_gpus=1)(lambda: os.environ['CUDA_VISIBLE_DEVICES']);"
    "print(json.dumps([ray.cluster_resources()['GPU'], ray.get(f.remote())]))"
)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "plane")
    try:
        yield made
    finally:
        made.manta("down", "--purge")


def test_a_task_with_a_gpu_sees_the_one_of_its_pod(machine: Machine, tmp_path: Path) -> None:
    manifest = tmp_path / "gpu.yaml"
    manifest.write_text(CLUSTER)
    machine.manta("up", "--fake-gpus", "2", "--with", str(manifest))
    (worker,) = machine.list("pods", "ray.io/group=gpu")
    (container,) = worker["status"]["containerStatuses"]
    (held,) = container["allocatedResourcesStatus"][0]["resources"]
    answer = machine.exec("svc/gpu-head-svc", "python", "-c", TASK)
    assert json.loads(answer.splitlines()[-1]) == [1.0, held["resourceID"]]
    shown = json.loads(machine.manta("status", "-o", "json").stdout)["gpus"]
    assert sorted(one["pod"] for one in shown) == ["", f"default/{worker['metadata']['name']}"]
