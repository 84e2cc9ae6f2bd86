"""A user's type checker: programs that use the SDK well pass `mypy --strict`, wrong ones do not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAMS = [
    *sorted(path for path in (ROOT / "examples/python").glob("*.py") if path.name != "train.py"),
    Path(__file__).with_name("user_program.py"),
]
WRONG = """
import manta

with manta.Client() as ray:
    ray.clusters.create(workers=manta.WorkerGroup(replicas=1))  # E: name
    ray.clusters.create(name="x", wokers=manta.WorkerGroup())  # E: wokers
    manta.WorkerGroup(replicas="2")  # E: replicas
    cluster = ray.clusters.get("x")
    cluster.status.stat  # E: stat
    text: int = cluster.submit("true").result().message  # E: int
    ray.jobs.submit("true", working_dir=3)  # E: working_dir
    async_cluster: manta.AsyncCluster = cluster  # E: AsyncCluster
    manta.Clint  # E: Clint
"""
pytestmark = pytest.mark.timeout(300)


def mypy(*files: Path) -> subprocess.CompletedProcess[str]:
    """As a user runs it: without the settings of this project."""
    strict = ["--strict", "--config-file=", f"--cache-dir={ROOT / '.cache/mypy-users'}"]
    command = [sys.executable, "-m", "mypy", *strict, *map(str, files)]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=files[0].parent, check=False
    )


def test_good_programs_pass_and_every_mistake_is_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    done = mypy(wrong, *PROGRAMS)
    errors = re.findall(r"^(\S+\.py):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert [error for error in errors if Path(error[0]).name != "wrong.py"] == []
    marked = {
        number: line.partition("# E: ")[2]
        for number, line in enumerate(WRONG.splitlines(), 1)
        if "# E: " in line
    }
    found = {int(line): message for _, line, message in errors}
    assert found.keys() == marked.keys(), done.stdout
