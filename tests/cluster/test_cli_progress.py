"""U17: `manta up` says what it does, in its own words on a pipe and live on a terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(120)

COMMAND = (sys.executable, "-m", "manta.cli.main")
FAKE = ("--nodes", "0", "--fake-nodes", "1")
CLUSTER = """
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: demo}
spec:
  headGroupSpec:
    template: {spec: {containers: [{name: ray-head, image: "rayproject/ray:2.60.0"}]}}
"""


def environment(home: Path, **more: str) -> dict[str, str]:
    unset = ("KUBECONFIG", "MANTA_DIR", "CI", "NO_COLOR")
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    return {**kept, "HOME": str(home), **more}


def test_a_plane_in_the_foreground_says_where_things_are(tmp_path: Path) -> None:
    plane = tmp_path / "plane"
    process = subprocess.Popen(
        [*COMMAND, "up", "--foreground", *FAKE, "--dir", str(plane)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(tmp_path),
    )
    assert process.stdout is not None
    shown = ""
    for line in process.stdout:
        shown += line
        if line.startswith("Ctrl-C"):
            break
    process.send_signal(signal.SIGINT)
    process.stdout.read()
    assert process.wait() == 0
    process.stdout.close()
    assert f"state in {plane}, log of the operator in {plane}/logs/operator.log" in shown
    assert f"export KUBECONFIG={plane}/kubeconfig" in shown
    assert re.search(r"operator +ready", shown)


def test_on_a_terminal_each_step_and_pod_has_a_row(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    words = (
        "up",
        *FAKE,
        "--dir",
        str(tmp_path / "plane"),
        "--with",
        str(tmp_path / "cluster.yaml"),
    )
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [*COMMAND, *words], environment(tmp_path, TERM="xterm"))
    shown = b""
    try:
        while data := os.read(fd, 65536):
            shown += data
    except OSError:  # a terminal says EIO when its last user is gone
        pass
    finally:
        os.close(fd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        down = [*COMMAND, "down", "--purge", "--dir", str(tmp_path / "plane")]
        subprocess.run(down, check=True, capture_output=True, env=environment(tmp_path))
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert code == 0, text
    table, _, rest = text.rpartition("✓ API server")
    assert table
    last = [line.split() for line in rest.splitlines()]
    assert ["✓", "operator", "ready"] in last
    assert ["✓", "raycluster/demo", "ready"] in last
    assert any(row[:1] == ["✓"] and row[1].startswith("pod/demo-head") for row in last)
    assert any(row[:2] == ["ready", "after"] for row in last), "after the table"
