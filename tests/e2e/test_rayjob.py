"""RayJobs on real Ray: each mode runs the entrypoint once, and tells how it ended."""

from __future__ import annotations

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


def given_back(machine: Machine, name: str) -> None:
    mine = f"ray.io/originated-from-cr-name={name}"
    machine.until("the cluster to be given back", lambda: not machine.list("rayclusters", mine))


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode", "SidecarMode"])
def test_the_entrypoint_runs_once_and_the_cluster_is_given_back(
    machine: Machine, mode: str, marks: Path
) -> None:
    name = f"once-{mode.lower()}"
    entrypoint = "bash -c 'echo ran >> /marks/runs; echo printed by the job'"
    once = job(name, mode, entrypoint, shutdownAfterJobFinishes=True)
    machine.apply(with_host_directory(once, marks))
    status = ended(machine, name)
    assert status["jobDeploymentStatus"] == "Complete", f"{status}\n{machine.logs()}"
    assert status["jobStatus"] == "SUCCEEDED"
    assert (marks / "runs").read_text() == "ran\n"
    given_back(machine, name)
    if mode == "K8sJobMode":  # the submitter's log outlives the cluster
        assert "printed by the job" in machine.manta("logs", f"job/{name}").stdout
    machine.manta("delete", "rayjob", name)


FAILS = "python -c 'print(6 * 7, flush=True); raise SystemExit(3)'"


def failed_with_its_log(machine: Machine, name: str) -> None:
    status = ended(machine, name)
    assert status["reason"] == "AppFailed", f"{status}\n{machine.logs()}"
    assert status["jobStatus"] == "FAILED"
    assert "exit code 3" in status["message"]
    assert "42" in machine.manta("logs", f"job/{name}").stdout
    machine.manta("delete", "rayjob", name)


def test_a_failing_sidecar_job_fails_with_the_words_of_ray(machine: Machine) -> None:
    machine.apply(job("fails-sidecar", "SidecarMode", FAILS))
    failed_with_its_log(machine, "fails-sidecar")


@pytest.fixture(scope="module")
def shared(machine: Machine) -> Iterator[str]:
    """A cluster that jobs borrow: what needs none of its own need not wait for one."""
    machine.apply(cluster("shared", workers=0))
    machine.cluster_ready("shared")
    yield "shared"
    machine.manta("delete", "raycluster", "shared")


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode"])
def test_a_failing_job_fails_with_the_words_of_ray(
    machine: Machine, mode: str, shared: str
) -> None:
    name = f"fails-{mode.lower()}"
    fails = job(name, mode, FAILS)
    del fails["spec"]["rayClusterSpec"]
    fails["spec"]["clusterSelector"] = {"ray.io/cluster": shared}
    machine.apply(fails)
    failed_with_its_log(machine, name)


def test_manta_submit_runs_a_local_script_and_exits_with_its_code(
    machine: Machine, tmp_path: Path, shared: str
) -> None:
    (tmp_path / "lib.py").write_text("WORD = 'carried along'\n")
    (tmp_path / "main.py").write_text(
        "import os, ray, lib\n"
        "ray.init()\n"
        "@ray.remote\n"
        "def work():\n"
        "    return lib.WORD\n"
        "print(ray.get(work.remote()), os.environ['MARK'])\n"
        "raise SystemExit(int(os.environ['CODE']))\n"
    )
    files = ("--cluster", shared, "--working-dir", str(tmp_path), "--env", "MARK=here")
    command = ("--", "python", "main.py")
    good = machine.manta("submit", "--name", "good", *files, "--env", "CODE=0", *command)
    assert "carried along here" in good.stdout
    bad = machine.manta("submit", *files, "--env", "CODE=5", *command, check=False)
    assert bad.returncode == 5, bad.stderr
    assert bad.stdout.count("carried along here") == 1, "the log, once"
    assert "carried along here" in machine.manta("logs", "job/good").stdout
    assert "good" in machine.manta("get", "jobs").stdout
    machine.manta("delete", "rayjob", "good")
