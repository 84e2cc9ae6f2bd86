"""`manta top` as a command: in a real terminal, without one, and without Textual."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from manta.api.ray.resources import RAY_CLUSTERS
from manta.localplane.plane import Plane, PlaneOptions
from support.raycrds import ray_crds

COMMAND = [sys.executable, "-m", "manta.cli.main", "top"]
CLUSTER = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "seen-in-a-terminal"},
    "spec": {
        "headGroupSpec": {
            "rayStartParams": {},
            "template": {"spec": {"containers": [{"name": "ray", "image": "ray"}]}},
        }
    },
}
HIDDEN = """
import sys
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "textual" else real(name, package)
from manta.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def _until(terminal: int, wanted: bytes, seconds: float = 60) -> bytes:
    """What the terminal got, as soon as `wanted` is in it."""
    got, ends = b"", time.monotonic() + seconds
    os.set_blocking(terminal, False)
    while wanted not in got:
        assert time.monotonic() < ends, got[-2000:]
        try:
            got += os.read(terminal, 65536)
        except BlockingIOError:
            time.sleep(0.05)
    return got


def _drive(kubeconfig: Path) -> int:
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "MANTA_DIR": str(kubeconfig.parent)}
    command = [*COMMAND, "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=environment)
    os.close(inner)
    try:
        _until(outer, b"seen-in-a-terminal")
        os.write(outer, b"\r")
        _until(outer, b"RayCluster default/seen-in-a-terminal")
        os.write(outer, b"q")
        os.set_blocking(outer, False)
        ends = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < ends:
            try:
                os.read(outer, 65536)
            except (BlockingIOError, OSError):
                time.sleep(0.05)
        return process.wait(1)
    finally:
        process.kill()
        os.close(outer)


async def test_the_fleet_of_a_server_is_shown_in_a_terminal(tmp_path: Path) -> None:
    async with Plane(PlaneOptions(tmp_path, memory=True, controllers=False)) as plane:
        for crd in ray_crds():
            plane.app.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", dict(crd))
        await plane.client.create(RAY_CLUSTERS, "default", CLUSTER)
        assert await asyncio.to_thread(_drive, tmp_path / "kubeconfig") == 0


@pytest.mark.parametrize(
    ("command", "cure"),
    [
        (COMMAND, "needs a terminal; `manta status -w`"),
        ([sys.executable, "-c", HIDDEN, "top"], "pip install 'manta-ray-operator[tui]'"),
    ],
)
def test_what_is_missing_is_named_with_its_cure(command: list[str], cure: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert cure in done.stderr
    assert "Traceback" not in done.stderr


def test_no_other_command_loads_textual() -> None:
    code = (
        "import sys; from manta.cli.main import VERBS, module_of, parse\n"
        "import importlib\n"
        "for verb in VERBS: importlib.import_module(module_of(verb))\n"
        "print([one for one in sys.modules if one.split('.')[0] == 'textual'])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
