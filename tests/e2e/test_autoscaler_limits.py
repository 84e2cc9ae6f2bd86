"""The unmodified Ray autoscaler v2 when its limit is lowered while its workers wait for a node."""

from __future__ import annotations

from typing import Any

from e2e.conftest import Machine
from e2e.objects import cluster, container

NAME = "limits"
DEMAND = (
    "import ray; from ray.autoscaler.sdk import request_resources;"
    "ray.init(logging_level='error'); request_resources(num_cpus=10); print('asked')"
)


def wanting_up_to(most: int) -> dict[str, Any]:
    """Its workers ask for a node that there is not; `replicas` are the autoscaler's to say."""
    nowhere = {"containers": [container("ray-worker")], "nodeSelector": {"no-such": "node"}}
    body = cluster(
        NAME,
        head={"rayStartParams": {"num-cpus": "0"}},
        group={"maxReplicas": most, "template": {"spec": nowhere}},
        enableInTreeAutoscaling=True,
        autoscalerOptions={
            "version": "v2",
            "idleTimeoutSeconds": 600,
            "resources": {
                "limits": {"cpu": "1", "memory": "1Gi"},
                "requests": {"cpu": "100m", "memory": "256Mi"},
            },
        },
    )
    del body["spec"]["workerGroupSpecs"][0]["replicas"]
    return body


def test_c18_a_limit_lowered_while_workers_are_pending_is_kept(machine: Machine) -> None:
    machine.apply(wanting_up_to(10))
    machine.cluster_ready(NAME)
    [head] = machine.list("pods", f"ray.io/cluster={NAME},ray.io/node-type=head")
    name = head["metadata"]["name"]
    assert "asked" in machine.exec(name, "python", "-c", DEMAND, container="ray-head")
    machine.until("ten workers that wait for a node", lambda: _pending(machine) == 10)

    machine.apply(wanting_up_to(3))
    machine.until("three of them", lambda: _pending(machine) == 3, 120)
    [group] = machine.get("raycluster", NAME)["spec"]["workerGroupSpecs"]
    assert group["replicas"] == 3
    machine.manta("delete", "raycluster", NAME)


def _pending(machine: Machine) -> int:
    workers = machine.list("pods", f"ray.io/cluster={NAME},ray.io/node-type=worker")
    alive = [one for one in workers if not one["metadata"].get("deletionTimestamp")]
    assert all(one["status"].get("phase", "Pending") == "Pending" for one in alive)
    return len(alive)
