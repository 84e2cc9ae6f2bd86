"""`manta console` on this machine: it lists before somebody comes, and starts also where nobody answers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from manta.cli.main import parse
from manta.cli.server.console_server import LocalConsole
from manta.console.sessions import Session
from manta.localplane.plane import Plane, PlaneOptions

NOBODY = """\
clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the console's key and links."""
    monkeypatch.setenv("MANTA_DIR", str(tmp_path / "console"))


async def test_everything_is_listed_before_the_first_visit(tmp_path: Path) -> None:
    async with Plane(PlaneOptions(dir=tmp_path / "plane", memory=True)) as plane:
        words = ["console", "--kubeconfig", str(plane.kubeconfig)]
        async with LocalConsole(parse(words)) as console:
            await console._listing
            [ready] = console._visitors._known.values()
            assert ready.done()
            visited = await console._visitors.of(Session(expires=2.0**40))
            assert visited is ready.result()  # the one who comes is the one it was listed for


async def test_it_starts_although_the_api_server_does_not_answer(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    await asyncio.to_thread(file.write_text, NOBODY)
    words = ["console", "--kubeconfig", str(file)]
    async with LocalConsole(parse(words)) as console:
        async with asyncio.timeout(60):
            await console._listing
        assert console.port
        assert not console._visitors._known


def test_the_cryptography_library_is_not_loaded_for_it() -> None:
    """6 MiB for cookies that hold no secret."""
    words = "import sys, manta.cli.server.console_server; print('cryptography' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
