"""The programs of examples/python on real Ray, as a user starts them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from e2e.conftest import ROOT, Machine

PROGRAMS = {
    "cluster_and_job.py": "primes: [168, 303, 430]",
    "many_jobs_async.py": "['square 4', 'square 9', 'square 16']",
    "notebook.py": "'CPU': ",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_runs_and_leaves_nothing(machine: Machine, name: str) -> None:
    if machine.namespace != "default":
        pytest.skip("the examples use the namespace of the kubeconfig and ask for their own image")
    environment = {**os.environ, "KUBECONFIG": str(machine.directory / "kubeconfig")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/python" / name)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{machine.logs()}"
    assert PROGRAMS[name] in done.stdout
    machine.until("no cluster", lambda: not machine.list("rayclusters"))
