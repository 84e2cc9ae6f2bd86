"""Real Ray Serve behind a RayService: it answers before and after an upgrade to a new cluster."""

from __future__ import annotations

import threading
import urllib.request
from typing import Any

from e2e.conftest import Machine
from e2e.objects import cluster

APP = """
from ray import serve

@serve.deployment
class Echo:
    async def __call__(self, request):
        return "hello"

app = Echo.bind()
"""
CONFIG = """
proxy_location: EveryNode
applications:
  - name: echo
    import_path: echo:app
    route_prefix: /
    deployments:
      - name: Echo
        num_replicas: {replicas}
        ray_actor_options: {{num_cpus: 0.1}}
"""


def service(mark: str, replicas: int = 2) -> list[dict[str, Any]]:
    """The app is a ConfigMap on PYTHONPATH: nothing has to be downloaded."""
    spec = cluster("unused")["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        pod["volumes"] = [{"name": "app", "configMap": {"name": "echo-app"}}]
        [ray] = pod["containers"]
        ray["volumeMounts"] = [{"name": "app", "mountPath": "/app"}]
        ray["env"] = [{"name": "PYTHONPATH", "value": "/app"}, {"name": "MARK", "value": mark}]
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "echo-app"},
            "data": {"echo.py": APP},
        },
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayService",
            "metadata": {"name": "echo"},
            "spec": {
                "serveConfigV2": CONFIG.format(replicas=replicas),
                "rayClusterConfig": spec,
                "rayClusterDeletionDelaySeconds": 5,
            },
        },
    ]


def running(machine: Machine) -> dict[str, Any] | None:
    status = machine.get("rayservice", "echo").get("status", {})
    return status if status.get("serviceStatus") == "Running" else None


class Caller(threading.Thread):
    """Calls the Service without a pause and keeps what went wrong."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._ended = threading.Event()
        self.answers = 0
        self.failures: list[str] = []

    def run(self) -> None:
        while not self._ended.wait(0.05):
            try:
                with urllib.request.urlopen(self._url, timeout=20) as answer:
                    assert answer.read() == b"hello"
                self.answers += 1
            except (OSError, AssertionError) as error:
                self.failures.append(repr(error))

    def stop(self) -> None:
        self._ended.set()
        self.join()


def test_a_service_answers_before_and_after_an_upgrade(machine: Machine) -> None:
    machine.apply(*service("a"))
    first = machine.until("the service to run", lambda: running(machine), 300)
    address = machine.get("service", "echo-serve-svc")["spec"]["clusterIP"]
    caller = Caller(f"http://{address}:8000/")
    caller.start()
    try:
        machine.until("the first answers", lambda: caller.answers > 5 or caller.failures, 60)
        before = first["activeServiceStatus"]["rayClusterName"]
        machine.apply(*service("b"))
        machine.until(
            "the upgrade to be over",
            lambda: (
                (status := running(machine))
                and status["activeServiceStatus"]["rayClusterName"] != before
                and not status.get("pendingServiceStatus", {}).get("rayClusterName")
            ),
            400,
        )
        machine.until(
            "the old cluster to be given back",
            lambda: len(machine.list("rayclusters", "ray.io/originated-from-cr-name=echo")) == 1,
            120,
        )
        answered = caller.answers
        machine.until("answers of the new cluster", lambda: caller.answers > answered + 5, 60)
    finally:
        caller.stop()
    machine.manta("delete", "rayservice", "echo")
