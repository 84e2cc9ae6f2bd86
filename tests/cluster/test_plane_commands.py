"""Commands on a plane of `manta up` with fake nodes, as a user types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(120)


@dataclass(frozen=True)
class Shell:
    """The `manta` command, with a plane of its own."""

    directory: Path

    def manta(self, *words: str, code: int = 0, stdin: str = "", **environment: str) -> str:
        unset = ("KUBECONFIG", "MANTA_DIR", "KUBERNETES_SERVICE_HOST")
        kept = {name: value for name, value in os.environ.items() if name not in unset}
        done = subprocess.run(
            [sys.executable, "-m", "manta.cli.main", *words],
            capture_output=True,
            text=True,
            input=stdin,
            env={**kept, "HOME": str(self.directory.parent), **environment},
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def on_plane(self, *words: str, code: int = 0, stdin: str = "") -> str:
        return self.manta(*words, "--dir", str(self.directory), code=code, stdin=stdin)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    made = Shell(tmp_path_factory.mktemp("home") / "plane")
    try:
        made.on_plane("up", "--nodes", "0", "--fake-nodes", "2")
        yield made
    finally:
        made.on_plane("down", "--purge")


@pytest.mark.parametrize("words", [("install", "--image", "i"), ("uninstall",)])
def test_a_plane_is_no_place_to_install_or_uninstall(shell: Shell, words: tuple[str, ...]) -> None:
    """U1: `manta uninstall` took the account of the plane's own operator away."""
    kubeconfig = str(shell.directory / "kubeconfig")
    said = shell.manta(*words, "--kubeconfig", kubeconfig, code=2)
    assert f"this API server is the plane of `manta up` in {shell.directory}" in said
    assert "serviceaccount/manta" in shell.on_plane(
        "get", "serviceaccounts", "-n", "manta-system", "-o", "name"
    ).replace("serviceaccounts/", "serviceaccount/")


def test_a_directory_that_is_named_wins_over_the_environment(shell: Shell, tmp_path: Path) -> None:
    """U5: for a reading and for a deleting command."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("not even a kubeconfig: [")
    flag = ("--dir", str(shell.directory))
    variable: dict[str, Any] = {"KUBECONFIG": str(elsewhere)}
    assert "kube-system" in shell.manta("get", "namespaces", *flag, **variable)
    assert "not found" in shell.manta("delete", "pod", "none", *flag, **variable)


def test_the_operators_health_is_a_row_of_status_and_doctor(shell: Shell) -> None:
    """U2: both said that all was well while the operator did not run."""
    assert "operator   ready" in shell.on_plane("status")
    record = json.loads((shell.directory / "operator.json").read_text())
    os.kill(record["pid"], signal.SIGKILL)
    while json.loads((shell.directory / "operator.json").read_text())["exits"] == 0:
        time.sleep(0.02)
    shown = json.loads(_first(shell, "status", "-o", "json"))
    assert "exit code -9" in shown["operator"]["state"]
    assert "exit code -9" in _first(shell, "doctor")
    shell.on_plane("up")  # waits until it is ready again
    assert "operator   ready; it exited once" in shell.on_plane("status")


def _first(shell: Shell, *words: str) -> str:
    """Whatever the exit code: the operator may be back already."""
    command = [sys.executable, "-m", "manta.cli.main", *words, "--dir", str(shell.directory)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
