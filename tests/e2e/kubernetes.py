"""The same tests on real Kubernetes: real containers under the operator of our chart.

`make e2e-kubernetes` sets MANTA_E2E_KUBERNETES. Each module of tests gets a namespace of its own; what is about
the embedded plane itself is marked `embedded_only` and says why.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Machine
from support.release import (
    OPERATOR,
    RAY_IMAGE,
    WANTED,
    end_namespace,
    kubeconfig_for,
    kubectl,
    new_namespace,
    release,
)

MIN_CPU = "100m"
"""What a container asks for: a node of two cores must hold two clusters. Its limit stays."""
Json = dict[str, Any]


@dataclass(frozen=True)
class OnKubernetes(Machine):
    """The `manta` command on a cluster that runs real containers."""

    operator: str = ""
    """The namespace of the operator."""

    def apply(self, *documents: Json) -> None:
        super().apply(*(fitted(one) for one in documents))

    def bring(self, file: Path) -> None:
        import yaml

        documents = list(yaml.safe_load_all(file.read_text()))
        self.apply(*documents)
        for one in documents:
            if one["kind"] == "RayCluster":
                self.cluster_ready(one["metadata"]["name"])

    def operators(self) -> Sequence[object]:
        pods = json.loads(kubectl("get", "pods", "-n", self.operator, "-l", OPERATOR, "-o", "json"))
        return [
            one["metadata"]["uid"]
            for one in pods["items"]
            if "deletionTimestamp" not in one["metadata"]
            and one.get("status", {}).get("phase") == "Running"
        ]

    def kill_operator(self) -> None:
        gone = ("--grace-period=0", "--force", "--wait=false")
        kubectl("delete", "pods", "-n", self.operator, "-l", OPERATOR, *gone)
        time.sleep(1)

    def logs(self) -> str:
        shown = kubectl("get", "pods", "-n", self.namespace, "-o", "wide", check=False)
        events = kubectl("get", "events", "-n", self.namespace, check=False)
        said = kubectl(*("logs", "-n", self.operator, "-l", OPERATOR, "--tail", "40"), check=False)
        return f"{shown}\n{events[-3000:]}\n{said[-4000:]}"


def fitted(document: Json) -> Json:
    """With the image that the nodes have, and small enough for one of two cores."""
    document = copy.deepcopy(document)
    for container in _containers(document):
        if str(container.get("image", "")).startswith("rayproject/ray:"):
            container["image"] = RAY_IMAGE
        requests = container.get("resources", {}).get("requests", {})
        if "cpu" in requests:
            requests["cpu"] = MIN_CPU
    return document


def _containers(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("containers", "initContainers"):
                yield from inner
            else:
                yield from _containers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _containers(inner)


@contextmanager
def on_kubernetes(config: pytest.Config, directory: Path) -> Iterator[Machine]:
    operator, namespace = release(config), new_namespace()
    kubeconfig_for(namespace, directory / "kubeconfig")
    try:
        yield OnKubernetes(directory, namespace, WANTED == "here", operator)
    finally:
        end_namespace(namespace)
