"""A cluster with real containers and our chart in it (`make e2e-kubernetes`).

What is true on any plane is shown by `tests/e2e`, which runs there too. Here is what only real Kubernetes has.
Ray objects live in a namespace of their own, which goes at the end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from support.release import RAY_IMAGE, WANTED, end_namespace, kubectl, new_namespace, release

Json = dict[str, Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "e2e_kubernetes" not in str(item.path):
            continue
        item.add_marker(pytest.mark.ray)
        item.add_marker(pytest.mark.timeout(600))
        if not WANTED:
            item.add_marker(pytest.mark.skip(reason="needs real containers: make e2e-kubernetes"))


@dataclass(frozen=True)
class Cluster:
    namespace: str

    def kubectl(self, *arguments: str, check: bool = True, text: str | None = None) -> str:
        return kubectl("-n", self.namespace, *arguments, check=check, text=text)

    def apply(self, document: Json) -> None:
        self.kubectl("apply", "-f", "-", text=json.dumps(document))

    def get(self, kind: str, name: str) -> Json:
        found: Json = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return found

    def pods(self, labels: str) -> list[Json]:
        found = json.loads(self.kubectl("get", "pods", "-l", labels, "-o", "json"))
        items: list[Json] = found["items"]
        return items

    def until(self, what: str, check: Callable[[], Any], seconds: float = 240) -> Any:
        """Look until it is so; what is there is in the failure."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := check():
                return found
            time.sleep(1)
        shown = self.kubectl("get", "rayclusters,rayjobs,pods", "-o", "wide", check=False)
        events = self.kubectl("get", "events", check=False)
        raise AssertionError(f"not within {seconds:.0f} s: {what}\n{shown}\n{events[-3000:]}")

    def status(self, kind: str, name: str) -> Json:
        found: Json = self.get(kind, name).get("status") or {}
        return found

    def python(self, pod: str, code: str) -> str:
        return self.kubectl("exec", pod, "-c", "ray", "--", "python", "-c", code)

    def head(self, cluster: str) -> Json:
        [pod] = self.pods(f"ray.io/cluster={cluster},ray.io/node-type=head")
        return pod


@pytest.fixture(scope="session")
def operator(pytestconfig: pytest.Config) -> Cluster:
    """Where the operator is."""
    return Cluster(release(pytestconfig))


@pytest.fixture(scope="module")
def cluster(operator: Cluster) -> Iterator[Cluster]:  # it has to be there
    namespace = new_namespace()
    yield Cluster(namespace)
    end_namespace(namespace)


def cluster_spec(workers: int = 1) -> Json:
    size = {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
    ray = {"name": "ray", "image": RAY_IMAGE, "resources": size}
    template = {"spec": {"containers": [ray]}}
    group = {
        "groupName": "small",
        "replicas": workers,
        "minReplicas": 0,
        "maxReplicas": 2,
        "rayStartParams": {"num-cpus": "1"},
        "template": template,
    }
    return {
        "rayVersion": "2.60.0",
        "headGroupSpec": {"rayStartParams": {"num-cpus": "1"}, "template": template},
        "workerGroupSpecs": [group],
    }


def ray_object(kind: str, name: str, body: Json) -> Json:
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": name}, "spec": body}
