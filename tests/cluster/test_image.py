"""The image without Docker: the steps of its Dockerfile, run in a directory that stands for its root."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.dockerfile import ROOT, sources, stages

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The RUN steps of the build stage, in a directory that stands for the image's root."""
    root = tmp_path_factory.mktemp("image")
    source = root / "src"
    source.mkdir()
    for name in sources():
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, source / name)
    build, _ = stages()
    for keyword, rest in build:
        if keyword == "RUN":
            _run(_in(root, rest), source)
    return root


def _in(root: Path, command: str) -> str:
    for path in ("/opt/manta", "/build", "/dist"):
        command = re.sub(rf"(?<![\w.]){path}", f"{root}{path}", command)
    return re.sub(r"(?<![\w/])python -m venv", f"{shlex.quote(sys.executable)} -m venv", command)


def _run(command: str, directory: Path) -> None:
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL"))
    }
    environment |= {"SOURCE_DATE_EPOCH": "315532800", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and re.search(r"No matching distribution|Could not fetch", done.stderr):
        pytest.skip(f"no package registry is reached from here: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_the_steps_make_an_operator_that_runs(built: Path) -> None:
    done = subprocess.run(
        [built / "opt/manta/bin/manta", "operator", "--help"],
        env={"PATH": "/nonexistent", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "--watch-namespace" in done.stdout


def test_what_is_made_holds_no_compiler_no_pip_and_no_tests(built: Path) -> None:
    names = {path.name for path in (built / "opt/manta").rglob("*")}
    assert not {"pip", "setuptools", "wheel", "hatchling", "gcc", "cc", "ld"} & names
    assert not {"mypy", "pytest", "kubernetes", "hypothesis"} & names


def test_nobody_but_its_owner_may_write_what_is_made(built: Path) -> None:
    loose = [
        path
        for path in (built / "opt/manta").rglob("*")
        if not path.is_symlink() and path.stat().st_mode & 0o022
    ]
    assert loose == []


def test_every_file_bears_the_time_of_the_sources(built: Path) -> None:
    times = {path.lstat().st_mtime for path in (built / "opt/manta").rglob("*")}
    assert times == {315532800.0}


def test_the_wheel_is_the_same_when_it_is_built_again(built: Path) -> None:
    [first] = (built / "dist").glob("*.whl")
    before = first.read_bytes()
    first.unlink()
    wheel = f"{built}/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir {built}/dist ."
    _run(wheel, built / "src")
    assert first.read_bytes() == before
