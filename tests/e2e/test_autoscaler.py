"""The unmodified Ray autoscaler scales real workers through our API server, RBAC and operator."""

from __future__ import annotations

import pytest

from e2e.conftest import Machine
from e2e.objects import cluster

DEMAND = (
    "import ray, time; ray.init(logging_level='error');"
    "f = ray.remote(num_cpus=1)(lambda: time.sleep(8) or 1);"
    "print('sum', sum(ray.get([f.remote() for _ in range(2)])))"
)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_c20_demand_brings_workers_and_idleness_takes_them_away(
    machine: Machine, version: str
) -> None:
    name = f"auto-{version}"
    machine.apply(
        cluster(
            name,
            workers=0,
            head={"rayStartParams": {"num-cpus": "0"}},
            enableInTreeAutoscaling=True,
            autoscalerOptions={
                "version": version,
                "idleTimeoutSeconds": 10,
                "resources": {
                    "limits": {"cpu": "1", "memory": "1Gi"},
                    "requests": {"cpu": "100m", "memory": "256Mi"},
                },
            },
        )
    )
    machine.cluster_ready(name)
    [head] = machine.list("pods", f"ray.io/cluster={name},ray.io/node-type=head")
    answer = machine.exec(head["metadata"]["name"], "python", "-c", DEMAND, container="ray-head")
    assert "sum 2" in answer
    assert machine.list("pods", f"ray.io/cluster={name},ray.io/node-type=worker")
    machine.until(
        "idle workers to be taken away",
        lambda: not machine.list("pods", f"ray.io/cluster={name},ray.io/node-type=worker"),
        180,
    )
    found = machine.get("raycluster", name)
    assert found["spec"]["workerGroupSpecs"][0]["replicas"] == 0
    machine.manta("delete", "raycluster", name)
