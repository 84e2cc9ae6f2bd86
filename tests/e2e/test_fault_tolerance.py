"""What becomes of a cluster whose head is killed, without and with fault tolerance."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from e2e.conftest import ON_KUBERNETES, Machine
from e2e.objects import cluster

COUNT = (
    "import ray; ray.init(logging_level='error', namespace='t');"
    "C = ray.remote(num_cpus=0.1)(type('C', (), {'__init__': lambda s: setattr(s, 'n', 0),"
    " 'add': lambda s: setattr(s, 'n', s.n + 1) or s.n}));"
    "c = C.options(name='c', get_if_exists=True, lifetime='detached', max_restarts=-1).remote();"
    "print('count', ray.get(c.add.remote(), timeout=60))"
)

NO_TASKS = {"rayStartParams": {"num-cpus": "0"}}
"""The actor lives on the worker: what dies with the head is not what is kept."""


def head_of(machine: Machine, name: str) -> dict[str, Any]:
    found = machine.list("pods", f"ray.io/cluster={name},ray.io/node-type=head")
    alive = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
    assert len(alive) == 1
    return alive[0]


def nodes_alive(machine: Machine, name: str) -> int:
    head = head_of(machine, name)["metadata"]["name"]
    script = (
        "import ray; ray.init(logging_level='error');"
        "print('alive', sum(n['Alive'] for n in ray.nodes()))"
    )
    done = machine.manta("exec", head, "--", "python", "-c", script, check=False)
    last = done.stdout.strip().splitlines()[-1:] or [""]
    return int(last[0].removeprefix("alive ")) if last[0].startswith("alive") else 0


def test_c81_without_fault_tolerance_the_workers_of_a_killed_head_come_back(
    machine: Machine,
) -> None:
    machine.apply(cluster("plain"))
    machine.cluster_ready("plain")
    before = head_of(machine, "plain")["metadata"]["uid"]
    machine.manta("delete", "pod", head_of(machine, "plain")["metadata"]["name"])
    machine.until(
        "a new head",
        lambda: (
            (heads := machine.list("pods", "ray.io/cluster=plain,ray.io/node-type=head"))
            and heads[0]["metadata"]["uid"] != before
        ),
    )
    machine.until("all nodes alive again", lambda: nodes_alive(machine, "plain") == 2, 240)
    machine.manta("delete", "raycluster", "plain")


def test_with_rocksdb_an_actor_keeps_its_state_over_a_head_restart(machine: Machine) -> None:
    name = "rocks"
    machine.apply(cluster(name, head=NO_TASKS, gcsFaultToleranceOptions={"backend": "rocksdb"}))
    machine.cluster_ready(name)
    _survives(machine, name)


@pytest.mark.skipif(
    not ON_KUBERNETES and not shutil.which("redis-server"),
    reason="redis-server is not installed (apt-get install redis-server)",
)
def test_with_redis_an_actor_keeps_its_state_over_a_head_restart(machine: Machine) -> None:
    machine.apply(*redis_server())
    machine.until(
        "Redis ready",
        lambda: machine.get("deployment", "redis").get("status", {}).get("readyReplicas") == 1,
    )
    name = "redis-ft"
    redis = {"redisAddress": "redis:6379"}
    machine.apply(cluster(name, head=NO_TASKS, gcsFaultToleranceOptions=redis))
    machine.cluster_ready(name)
    _survives(machine, name)
    machine.manta("delete", "raycluster", name)


def _survives(machine: Machine, name: str) -> None:
    head = head_of(machine, name)
    assert "count 1" in machine.exec(head["metadata"]["name"], "python", "-c", COUNT)
    machine.manta("delete", "pod", head["metadata"]["name"])
    machine.until(
        "a new head that is ready",
        lambda: any(
            pod["metadata"]["uid"] != head["metadata"]["uid"] and _is_ready(pod)
            for pod in machine.list("pods", f"ray.io/cluster={name},ray.io/node-type=head")
        ),
    )
    answer = machine.exec(head_of(machine, name)["metadata"]["name"], "python", "-c", COUNT)
    assert "count 2" in answer


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def redis_server() -> list[dict[str, Any]]:
    labels = {"app": "redis"}
    container = {
        "name": "redis",
        "image": "redis:7",
        "command": [
            "redis-server",
            "--port",
            "6379",
            "--bind",
            "0.0.0.0",
            "--protected-mode",
            "no",
            "--save",
            "",
        ],
        "ports": [{"containerPort": 6379}],
        "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "redis"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "redis"},
            "spec": {"selector": labels, "ports": [{"port": 6379}]},
        },
    ]


def test_a_killed_operator_is_started_again_and_pods_go_on(machine: Machine) -> None:
    machine.apply(cluster("steady", workers=0))
    machine.cluster_ready("steady")
    before = head_of(machine, "steady")["metadata"]["uid"]
    machine.kill_operator()
    machine.until("another operator", machine.operators, 30)
    machine.apply(cluster("steady", workers=1))
    machine.cluster_ready("steady")
    machine.until(
        "the new worker",
        lambda: machine.list("pods", "ray.io/cluster=steady,ray.io/node-type=worker"),
    )
    assert head_of(machine, "steady")["metadata"]["uid"] == before
    machine.manta("delete", "raycluster", "steady")
