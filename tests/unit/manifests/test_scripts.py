"""Everything that a generated Pod runs is read by what it is written for: bash, sh or Python."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from manta.manifests.worker_pod import wait_script

GOLDEN = Path(__file__).parents[2] / "golden" / "raycluster"


def _containers() -> Iterator[dict[str, Any]]:
    for path in sorted(GOLDEN.glob("*.yaml")):
        for one in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader):
            spec = one.get("spec") or {}
            pod = (spec.get("template") or {}).get("spec") or spec
            yield from pod.get("initContainers") or ()
            yield from pod.get("containers") or ()


def _commands() -> Iterator[list[str]]:
    for container in _containers():
        yield [*(container.get("command") or ()), *(container.get("args") or ())]
        hook = (container.get("lifecycle") or {}).get("preStop") or {}
        for probe in (hook, container.get("livenessProbe"), container.get("readinessProbe")):
            yield ((probe or {}).get("exec") or {}).get("command") or []


def _scripts() -> list[tuple[str, str]]:
    """(interpreter, text), each once."""
    found = {(Path(words[0]).name, words[-1]) for words in _commands() if len(words) > 2}
    return sorted(found)


SHELLS = [(name, text) for name, text in _scripts() if name in ("bash", "sh")]
PYTHON = [text for name, text in _scripts() if name == "python"]


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_shell_reads_every_script_that_is_made_for_it(shell: str) -> None:
    program = shutil.which(shell)
    texts = [text for name, text in SHELLS if name == shell]
    assert texts
    for text in texts:
        done = subprocess.run(
            [program or shell, "-n"], input=text, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), text


def test_python_reads_every_script_that_is_made_for_it() -> None:
    assert PYTHON
    for text in PYTHON:
        compile(text, "hook", "exec")


def test_every_container_that_we_add_says_what_it_runs() -> None:
    ours = {"wait-gcs-ready", "wait-for-tls-ip-san", "autoscaler"}
    for container in _containers():
        if container["name"] in ours:
            assert container["command"], container["name"]


def test_a_worker_that_waits_for_its_head_goes_on_request(tmp_path: Path) -> None:
    """As the first process of a container it hears only what it has a trap for, and only in `wait`."""
    ray = tmp_path / "ray"
    ray.write_text("#!/bin/sh\necho asked >&3\nexec sleep 600\n")
    ray.chmod(0o755)
    script = f"exec 3>{tmp_path}/asked\n{wait_script('head:6379')}"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    os.mkfifo(tmp_path / "asked")
    shell = subprocess.Popen(["bash", "-c", script], env=environment, start_new_session=True)
    try:
        with (tmp_path / "asked").open() as asked:
            assert asked.readline() == "asked\n"
        shell.send_signal(signal.SIGTERM)
        assert shell.wait(60) == 143
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)  # the question goes on without who asked it
        shell.wait()
