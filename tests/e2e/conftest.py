"""One plane with real Ray for a whole test module, as `manta up` makes it.

With MANTA_E2E_KUBERNETES it is real Kubernetes instead (`make e2e-kubernetes`, `e2e/kubernetes.py`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ON_KUBERNETES = bool(os.environ.get("MANTA_E2E_KUBERNETES"))
MANTA = [sys.executable, "-m", "manta.cli.main"]


def why_not() -> str | None:
    """Why real Pods cannot run here; None when they can."""
    if ON_KUBERNETES:
        return None
    if sys.platform != "linux":
        return "Pods need Linux namespaces"
    if os.geteuid() != 0:
        return "these tests make network namespaces as root"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_not()
    for item in items:
        if "e2e" not in str(item.path):
            continue
        item.add_marker(pytest.mark.ray)
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
        local = item.get_closest_marker("embedded_only")
        if ON_KUBERNETES and local:
            item.add_marker(pytest.mark.skip(reason=local.kwargs["reason"]))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the figures that tests recorded, as JSON: no test asserts a timing."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            if report.when == "call" and report.user_properties:
                figures = dict(report.user_properties)
                terminalreporter.write_line(json.dumps(figures))


@dataclass(frozen=True)
class Machine:
    """The `manta` command on one plane directory."""

    directory: Path
    namespace: str = "default"
    is_here: bool = True
    """Addresses of Pods and directories of this machine mean here what they mean there."""

    def command(self, verb: str, *rest: str) -> list[str]:
        """To be run without KUBECONFIG."""
        where = [] if self.namespace == "default" else ["-n", self.namespace]
        return [*MANTA, verb, "--dir", str(self.directory), *where, *rest]

    def manta(
        self, *arguments: str, check: bool = True, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        command = self.command(*arguments)
        environment = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False, **options
        )
        if check and done.returncode:
            raise AssertionError(
                f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}\n{self.logs()}"
            )
        return done

    def apply(self, *documents: dict[str, Any]) -> None:
        text = "\n---\n".join(json.dumps(document) for document in documents)
        self.manta("apply", "-f", "-", input=text)

    def bring(self, file: Path) -> None:
        """Apply it, and wait until its clusters are ready."""
        self.manta("up", "--with", str(file))

    def get(self, kind: str, name: str) -> dict[str, Any]:
        done = self.manta("get", kind, name, "-o", "json")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def list(self, kind: str, labels: str = "") -> list[dict[str, Any]]:
        arguments = ["get", kind, "-o", "json", *(["-l", labels] if labels else [])]
        items: list[dict[str, Any]] = json.loads(self.manta(*arguments).stdout)["items"]
        return items

    def exec(self, pod: str, *command: str, container: str = "") -> str:
        chosen = ["-c", container] if container else []
        return self.manta("exec", *chosen, pod, "--", *command).stdout

    def until(self, what: str, check: Callable[[], Any], seconds: float = 180) -> Any:
        """Look until it is so; what was seen last is in the failure."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := check():
                return found
            time.sleep(0.5)
        status = "" if ON_KUBERNETES else self.manta("status", check=False).stdout
        raise AssertionError(f"not within {seconds:.0f} s: {what}\n{status}\n{self.logs()}")

    def cluster_ready(self, name: str, seconds: float = 240) -> dict[str, Any]:
        def ready() -> dict[str, Any] | None:
            found = self.get("raycluster", name)
            return found if found.get("status", {}).get("state") == "ready" else None

        found: dict[str, Any] = self.until(f"RayCluster {name} ready", ready, seconds)
        return found

    def kill_operator(self) -> None:
        """kill -9; it is started again."""
        for pid in self.operators():
            os.kill(int(str(pid)), signal.SIGKILL)

    def operators(self) -> Sequence[object]:
        """The processes of this plane's operator."""
        mark = str(self.directory / "operator.kubeconfig").encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if mark in command:
                    found.append(int(entry.name))
        return found

    def logs(self) -> str:
        files = sorted((self.directory / "logs").glob("*.log"))
        return "\n".join(f"== {file}\n{file.read_text()[-2000:]}" for file in files)


@pytest.fixture(scope="module")
def machine(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Machine]:
    # A path of its own that is short: sockets below it must fit into 108 characters.
    directory = tmp_path_factory.mktemp("m", numbered=True)
    if ON_KUBERNETES:
        from e2e.kubernetes import on_kubernetes

        with on_kubernetes(pytestconfig, directory) as machine:
            yield machine
        return
    machine = Machine(directory)
    machine.manta("up", "--cpus", "8")
    try:
        # `up` returns with the API server; what the operator brings along follows a moment later.
        machine.until(
            "Ray's kinds", lambda: not machine.manta("get", "rayjobs", check=False).returncode
        )
        yield machine
    finally:
        machine.manta("down", "--purge", check=False)


@pytest.fixture
def marks(machine: Machine) -> Iterator[Path]:
    """A directory of this machine that any user in a container may write to."""
    if not machine.is_here:
        pytest.skip("the nodes of that cluster do not see directories of this machine")
    with tempfile.TemporaryDirectory(prefix="marks-") as made:
        Path(made).chmod(0o777)
        yield Path(made)
