"""The console of `manta up`: a link for one browser, a process only when somebody comes."""

from __future__ import annotations

import http.client
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.timeout(120)


@dataclass(frozen=True)
class Shell:
    directory: Path

    def manta(self, *words: str, code: int = 0, **environment: str) -> str:
        unset = ("KUBECONFIG", "MANTA_DIR", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
        kept = {name: value for name, value in os.environ.items() if name not in unset}
        done = subprocess.run(
            [sys.executable, "-m", "manta.cli.main", *words, "--dir", str(self.directory)],
            capture_output=True,
            text=True,
            env={**kept, "HOME": str(self.directory.parent), **environment},
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr

    def consoles(self) -> list[int]:
        """The pids of the consoles of this plane."""
        wanted = f"\0console\0--dir\0{self.directory}\0".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            except OSError:
                continue
            if wanted in line:
                found.append(int(entry.name))
        return found


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path / "plane")
    try:
        yield made
    finally:
        made.manta("down", "--purge")


def link_in(text: str) -> str:
    [link] = [word for word in text.split() if "/login?token=" in word]
    return link


def asked(url: str, cookie: str = "") -> http.client.HTTPResponse:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=60)
    try:
        headers = {"Host": parts.netloc, "Cookie": cookie}
        connection.request("GET", f"{parts.path}?{parts.query}", headers=headers)
        answer = connection.getresponse()
        answer.body = answer.read().decode()  # type: ignore[attr-defined]
        return answer
    finally:
        connection.close()


def test_the_printed_link_logs_in_once_and_survives_kills(shell: Shell) -> None:
    link = link_in(shell.manta("up", "--nodes", "0"))
    assert shell.consoles() == []  # nobody came yet
    first, again = asked(link), asked(link)
    assert (first.status, again.status) == (200, 401)
    cookie = (first.getheader("Set-Cookie") or "").partition(";")[0]
    fleet = link.partition("/login")[0] + "/"
    assert "No Ray objects yet" in asked(fleet, cookie).body  # type: ignore[attr-defined]

    [pid] = shell.consoles()
    os.kill(pid, signal.SIGKILL)
    assert asked(fleet, cookie).status == 200  # waits until the next process is there
    shell.manta("down")
    assert link_in(shell.manta("up", "--nodes", "0")).partition("/login")[0] + "/" == fleet
    assert asked(fleet, cookie).status == 200
    logs = (shell.directory / "logs").glob("*.log")
    assert not any("token=" in one.read_text() for one in logs)


def test_a_plane_without_console_listens_to_nobody(shell: Shell) -> None:
    assert "/login" not in shell.manta("up", "--nodes", "0", "--no-console")
    assert not (shell.directory / "console.json").exists()
    assert "runs without a console" in shell.manta("up", "--open")


def test_no_argument_of_a_browser_holds_the_token(shell: Shell, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {seen}.new && mv {seen}.new {seen}\n')
    browser.chmod(0o755)
    link = link_in(shell.manta("up", "--nodes", "0", "--open", BROWSER=f"{browser} %s"))
    while not seen.exists():
        time.sleep(0.02)
    file = Path(urlsplit(seen.read_text().strip()).path)
    assert "token" not in seen.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert link in file.read_text()
    assert json.loads((shell.directory / "console.json").read_text())["served"] is True
