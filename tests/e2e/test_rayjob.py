"""RayJobs on real Ray: each mode runs the entrypoint once, and tells how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


MODES = ("K8sJobMode", "HTTPMode", "SidecarMode")


def test_every_mode_runs_the_entrypoint_once_and_gives_its_cluster_back(
    machine: Machine, tmp_path: Path
) -> None:
    """All three at once: most of a cluster's start is waiting."""
    for mode in MODES:
        (tmp_path / mode).mkdir()
        once = job(
            f"once-{mode.lower()}",
            mode,
            "bash -c 'echo ran >> /marks/runs; echo printed by the job'",
            shutdownAfterJobFinishes=True,
        )
        machine.apply(with_host_directory(once, tmp_path / mode))
    for mode in MODES:
        name = f"once-{mode.lower()}"
        status = ended(machine, name)
        assert status["jobDeploymentStatus"] == "Complete", f"{status}\n{machine.logs()}"
        assert status["jobStatus"] == "SUCCEEDED"
        assert (tmp_path / mode / "runs").read_text() == "ran\n"
        given_back(machine, name)
    # The submitter's log outlives the cluster.
    assert "printed by the job" in machine.manta("logs", "job/once-k8sjobmode").stdout
    for mode in MODES:
        machine.manta("delete", "rayjob", f"once-{mode.lower()}")


def test_a_failing_job_fails_with_the_words_of_ray_in_every_mode(machine: Machine) -> None:
    """Their clusters stay: the log is found in every mode."""
    program = "python -c 'print(6 * 7, flush=True); raise SystemExit(3)'"
    for mode in MODES:
        machine.apply(job(f"fails-{mode.lower()}", mode, program))
    for mode in MODES:
        status = ended(machine, f"fails-{mode.lower()}")
        assert (status["jobStatus"], status["reason"]) == ("FAILED", "AppFailed")
        assert "exit code 3" in status["message"]
        assert "42" in machine.manta("logs", f"job/fails-{mode.lower()}").stdout
        machine.manta("delete", "rayjob", f"fails-{mode.lower()}")


def test_manta_submit_runs_a_local_script_and_exits_with_its_code(
    machine: Machine, tmp_path: Path
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
    machine.apply(cluster("shared", workers=0))
    machine.cluster_ready("shared")
    files = ("--working-dir", str(tmp_path), "--env", "MARK=here")
    command = ("--", "python", "main.py")
    good = machine.manta(
        "submit", "--cluster", "shared", "--name", "good", *files, "--env", "CODE=0", *command
    )
    assert "carried along here" in good.stdout
    bad = machine.manta(
        "submit", "--cluster", "shared", *files, "--env", "CODE=5", *command, check=False
    )
    assert bad.returncode == 5, bad.stderr
    assert "carried along here" in machine.manta("logs", "job/good").stdout
    assert "good" in machine.manta("get", "jobs").stdout
    machine.manta("delete", "rayjob", "good")
    machine.manta("delete", "raycluster", "shared")
