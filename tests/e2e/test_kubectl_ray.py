"""`kubectl ray job submit` with real Ray: a directory, a pip requirement, the log, the exit code."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from e2e.conftest import Machine
from e2e.objects import cluster

SCRIPT = """
import os, sys, time
import ray, tiny
ray.init()
print("tiny says", tiny.WORD, "and CPUs are", ray.cluster_resources()["CPU"] > 0, flush=True)
time.sleep(1)
print("the last line", flush=True)
sys.exit(int(os.environ["CODE"]))
"""
WHEEL = "tiny-1.0-py3-none-any.whl"


def write_wheel(path: Path) -> None:
    """A package that needs no index: Pods may have no way out."""
    info = "tiny-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny.py", "WORD = 'hello'\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(
            f"{info}/RECORD", f"tiny.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"
        )


def submit(machine: Machine, directory: Path, name: str, code: int) -> Any:
    (directory / "main.py").write_text(SCRIPT)
    (directory / "requirements.txt").write_text(
        f"${{RAY_RUNTIME_ENV_CREATE_WORKING_DIR}}/{WHEEL}\n"
    )
    write_wheel(directory / WHEEL)
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name},
        "spec": {
            "submissionMode": "InteractiveMode",
            "rayClusterSpec": cluster("unused", workers=0)["spec"],
        },
    }
    (directory / "job.yaml").write_text(json.dumps(job))
    env = {"pip": str(directory / "requirements.txt"), "env_vars": {"CODE": str(code)}}
    words = ["-f", str(directory / "job.yaml"), "--working-dir", str(directory)]
    words += ["--runtime-env-json", json.dumps(env), "--dir", str(machine.directory)]
    if machine.namespace != "default":
        words += ["-n", machine.namespace]
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "manta.cli.plugin.main",
            "job",
            "submit",
            *words,
            "--",
            "python",
            "main.py",
        ],
        env={key: value for key, value in os.environ.items() if key != "KUBECONFIG"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def test_a_directory_with_a_requirement_runs_without_a_local_ray(
    machine: Machine, tmp_path: Path
) -> None:
    assert importlib.util.find_spec("ray") is None
    done = submit(machine, tmp_path, "sent", 7)
    assert done.returncode == 7, f"{done.stdout}\n{done.stderr}\n{machine.logs()}"
    assert "tiny says hello and CPUs are True\n" in done.stdout
    assert done.stdout.count("the last line\n") == 1
    assert machine.get("rayjob", "sent")["status"]["jobStatus"] == "FAILED"
    machine.manta("delete", "rayjob", "sent")
