"""A cluster with real containers and our chart in it (`make e2e-kubernetes`).

KUBECONFIG names the cluster; MANTA_E2E_OPERATOR and MANTA_E2E_RAY the images that its nodes have or can
pull. Everything lives in two namespaces of our own, and goes at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WANTED = "MANTA_E2E_KUBERNETES"
OPERATOR_IMAGE = os.environ.get("MANTA_E2E_OPERATOR", "docker.io/manta/operator:e2e")
RAY_IMAGE = os.environ.get("MANTA_E2E_RAY", "docker.io/rayproject/ray:2.60.0")
Json = dict[str, Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "e2e_kubernetes" not in str(item.path):
            continue
        item.add_marker(pytest.mark.ray)
        item.add_marker(pytest.mark.timeout(900))
        if not os.environ.get(WANTED):
            item.add_marker(pytest.mark.skip(reason="needs real containers: make e2e-kubernetes"))


@dataclass(frozen=True)
class Cluster:
    namespace: str

    def kubectl(self, *arguments: str, text: str | None = None, check: bool = True) -> str:
        command = ["kubectl", "-n", self.namespace, *arguments]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, timeout=300
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def apply(self, document: Json) -> None:
        self.kubectl("apply", "-f", "-", text=json.dumps(document))

    def get(self, kind: str, name: str) -> Json:
        found: Json = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return found

    def pods(self, labels: str) -> list[Json]:
        found = json.loads(self.kubectl("get", "pods", "-l", labels, "-o", "json"))
        items: list[Json] = found["items"]
        return items

    def until(
        self, kind: str, name: str, check: Callable[[Json], object], seconds: float = 420
    ) -> Json:
        """The status, as soon as it passes the check."""
        end, status = time.monotonic() + seconds, {}
        while time.monotonic() < end:
            status = self.get(kind, name).get("status") or {}
            if check(status):
                return status
            time.sleep(1)
        pods = self.kubectl("get", "pods", "-o", "wide", check=False)
        raise AssertionError(f"{kind} {name}: {status}\n{pods}")

    def python(self, pod: str, code: str) -> str:
        return self.kubectl("exec", pod, "-c", "ray", "--", "python3", "-c", code)

    def head(self, cluster: str) -> str:
        [pod] = self.pods(f"ray.io/cluster={cluster},ray.io/node-type=head")
        return str(pod["metadata"]["name"])


def helm() -> str:
    cached = Path("~/.cache/manta/helm/helm").expanduser()
    return str(cached) if cached.exists() else "helm"


@pytest.fixture(scope="session")
def installed() -> Iterator[str]:
    """The namespace of our release."""
    namespace = f"manta-e2e-{uuid.uuid4().hex[:6]}"
    repository, _, tag = OPERATOR_IMAGE.rpartition(":")
    command = [
        *(helm(), "upgrade", "--install", "manta", str(ROOT / "charts/manta"), "-n", namespace),
        *("--create-namespace", "--wait", "--timeout", "180s"),
        *("--set", f"image.repository={repository}", "--set", f"image.tag={tag}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        state = ("get", "pods,events", "-n", namespace)
        why = subprocess.run(["kubectl", *state], capture_output=True, text=True, check=False)
        raise AssertionError(f"helm: {done.stderr}\n{why.stdout}")
    yield namespace
    subprocess.run([helm(), "uninstall", "manta", "-n", namespace, "--wait"], check=False)
    subprocess.run(["kubectl", "delete", "namespace", namespace], check=False)


@pytest.fixture(scope="session")
def cluster(installed: str) -> Iterator[Cluster]:
    found = Cluster(f"{installed}-ray")
    subprocess.run(["kubectl", "create", "namespace", found.namespace], check=True)
    yield found
    found.kubectl(
        "delete", "raycronjobs,rayjobs,rayservices,rayclusters", "--all", "--timeout=120s"
    )
    subprocess.run(["kubectl", "delete", "namespace", found.namespace], check=False)


def container(**more: Any) -> Json:
    size = {"cpu": "100m", "memory": "512Mi"}
    return {
        "name": "ray",
        "image": RAY_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": size, "limits": {"cpu": "1", "memory": "3Gi"}},
        "env": [{"name": "RAY_USAGE_STATS_ENABLED", "value": "0"}],
        **more,
    }


def spec(workers: int = 1, **more: Any) -> Json:
    def template(**fields: Any) -> Json:
        return {"spec": {"terminationGracePeriodSeconds": 2, "containers": [container(**fields)]}}

    group = {
        "groupName": "small",
        "replicas": workers,
        "minReplicas": 0,
        "maxReplicas": 2,
        "rayStartParams": {"num-cpus": "1"},
        "template": template(),
    }
    return {
        "rayVersion": "2.60.0",
        "headGroupSpec": {"rayStartParams": {"num-cpus": "1"}, "template": template()},
        "workerGroupSpecs": [group],
        **more,
    }


def ray_object(kind: str, name: str, body: Json) -> Json:
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": name}, "spec": body}
