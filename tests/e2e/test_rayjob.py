"""RayJobs on real Ray: each mode runs the entrypoint once, and tells how it ended."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Machine
from e2e.objects import cluster


def job(name: str, mode: str, entrypoint: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name},
        "spec": {
            "submissionMode": mode,
            "entrypoint": entrypoint,
            "rayClusterSpec": cluster("unused", workers=0)["spec"],
            **spec,
        },
    }


@pytest.fixture
def mark() -> Iterator[Path]:
    """A file that Pods and this test both see: every Pod has a /tmp of its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        yield Path(directory) / "runs"


def ended(machine: Machine, name: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        status = machine.get("rayjob", name).get("status", {})
        return status if status.get("jobDeploymentStatus") in ("Complete", "Failed") else None

    found: dict[str, Any] = machine.until(f"RayJob {name} to end", look, 300)
    return found


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode", "SidecarMode"])
def test_the_entrypoint_runs_once_and_the_cluster_is_given_back(
    machine: Machine, mode: str, mark: Path
) -> None:
    """Pods are processes of this machine: the job itself counts its runs in a file of it."""
    name = f"once-{mode.lower()}"
    machine.apply(job(name, mode, f"bash -c 'echo ran >> {mark}'", shutdownAfterJobFinishes=True))
    status = ended(machine, name)
    assert (status["jobStatus"], status["jobDeploymentStatus"]) == ("SUCCEEDED", "Complete")
    assert mark.read_text() == "ran\n"
    machine.until(
        "the cluster to be given back",
        lambda: not machine.list("rayclusters", f"ray.io/originated-from-cr-name={name}"),
    )
    machine.manta("delete", "rayjob", name)


def test_a_failing_job_fails_with_the_words_of_ray(machine: Machine) -> None:
    machine.apply(job("fails", "HTTPMode", "python -c 'raise SystemExit(3)'"))
    status = ended(machine, "fails")
    assert (status["jobStatus"], status["reason"]) == ("FAILED", "AppFailed")
    assert status["message"]
    machine.manta("delete", "rayjob", "fails")
