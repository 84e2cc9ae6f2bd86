"""RayJobs on real Ray: each mode runs the entrypoint once, and tells how it ended."""

from __future__ import annotations

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


def with_host_directory(document: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The head sees this directory of the machine at /marks: the job counts its runs there."""
    pod = document["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    pod["volumes"] = [{"name": "marks", "hostPath": {"path": str(directory)}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "marks", "mountPath": "/marks"}]
    return document


def ended(machine: Machine, name: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        status = machine.get("rayjob", name).get("status", {})
        return status if status.get("jobDeploymentStatus") in ("Complete", "Failed") else None

    found: dict[str, Any] = machine.until(f"RayJob {name} to end", look, 300)
    return found


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode", "SidecarMode"])
def test_the_entrypoint_runs_once_and_the_cluster_is_given_back(
    machine: Machine, mode: str, tmp_path: Path
) -> None:
    name = f"once-{mode.lower()}"
    once = job(name, mode, "bash -c 'echo ran >> /marks/runs'", shutdownAfterJobFinishes=True)
    machine.apply(with_host_directory(once, tmp_path))
    status = ended(machine, name)
    assert (status["jobStatus"], status["jobDeploymentStatus"]) == ("SUCCEEDED", "Complete")
    assert (tmp_path / "runs").read_text() == "ran\n"
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
