"""One life of a plane: up, apply, kill -9 of random parts at random moments, down.

Whatever was killed, and whenever, `manta down` must leave the machine as it was.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from chaos.traces import Machine, Sockets, traces
from manta.cli.plane.process import plane_processes
from manta.localplane.node.cleanup import marked_processes

ROOT = Path(__file__).parents[2]
PODS_FILE = Path(__file__).with_name("pods.yaml")
QUICKSTART = ROOT / "examples" / "quickstart.yaml"
MANTA = [sys.executable, "-m", "manta.cli.main"]
_TIMEOUT = 240


@dataclass
class Cycle:
    directory: Path
    random: Random
    ray: bool = False
    """Apply a real RayCluster too, and give it some time."""
    story: list[str] = field(default_factory=list)
    """What was done: printed when something is left behind."""
    sockets: Sockets = field(default_factory=Sockets)
    applied: bool = False
    """There was a plane that took the Pods. A run in which none did proves nothing."""

    def run(self) -> list[str]:
        """All that was left behind; empty when nothing was."""
        before = Machine.look()
        for step in (self._start, self._apply, self._kill_some, self._use_again):
            step()
        purge = self._stop()
        left = [*traces(self.directory, forgotten=purge), *self.sockets.still_listening()]
        self._manta("down", "--purge")
        return [*left, *before.differences(), *traces(self.directory, forgotten=True)]

    def _say(self, words: str) -> None:
        self.story.append(words)

    # ── steps ──────────────────────────────────────────────────────────────────────────
    def _start(self) -> None:
        """Sometimes interrupted, at any moment of the start; then tried again, or not."""
        if self.random.random() < 0.3:
            following = ["--with", str(PODS_FILE)] if self.random.random() < 0.5 else []
            self._interrupted("up", *following, after=self.random.uniform(0, 3.0))
            if self.random.random() < 0.3:
                return
        self._manta("up", "--cpus", "8")

    def _apply(self) -> None:
        self.applied = self._manta("apply", "-f", str(PODS_FILE)) == 0
        if self.ray:
            self._manta("apply", "-f", str(QUICKSTART))
        time.sleep(self.random.uniform(0, 20 if self.ray else 2))

    def _kill_some(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            parts = self._parts()
            if not parts:
                return
            self.sockets = Sockets(self.sockets.inodes | Sockets.of(list(parts)).inodes)
            pid = self.random.choice(sorted(parts))
            self._say(f"kill -9 {parts[pid]}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            time.sleep(self.random.choice((0, 0, 0.1, 1)))

    def _use_again(self) -> None:
        """Half of the time somebody comes back: the plane adopts what it finds."""
        if self.random.random() < 0.5:
            self._manta("up", "--cpus", "8")
            self.sockets = Sockets(self.sockets.inodes | Sockets.of(list(self._parts())).inodes)
            time.sleep(self.random.uniform(0, 2))

    def _stop(self) -> bool:
        """Sometimes interrupted too. True: also its state was to be removed."""
        purge = self.random.random() < 0.5
        arguments = ["down", *(["--purge"] if purge else [])]
        if self.random.random() < 0.3:
            self._interrupted(*arguments, after=self.random.uniform(0, 1.0))
        self._manta(*arguments)
        return purge

    # ── hands ──────────────────────────────────────────────────────────────────────────
    def _parts(self) -> dict[int, str]:
        """Everything of the plane that can be killed: pid -> what it is."""
        plane = {pid: _name(pid) for pid in plane_processes(self.directory)}
        node = {pid: _name(pid) for pid in marked_processes(self.directory / "node")}
        inside = {child: _name(child) for pid in node for child in _descendants(pid)}
        return {**inside, **node, **plane}

    def _manta(self, verb: str, *arguments: str) -> int:
        self._say(" ".join((verb, *arguments)))
        command = [*MANTA, verb, "--dir", str(self.directory), *arguments]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=_environment(),
            check=False,
            timeout=_TIMEOUT,
        )
        if done.returncode:
            self._say(f"  exit code {done.returncode}: {(done.stdout + done.stderr)[-300:]}")
        return done.returncode

    def _interrupted(self, verb: str, *arguments: str, after: float = 0.5) -> None:
        self._say(f"{' '.join((verb, *arguments))}, Ctrl-C after {after:.2f} s")
        command = [*MANTA, verb, "--dir", str(self.directory), *arguments]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(command, stdout=quiet, stderr=quiet, env=_environment()) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(after)
            process.send_signal(signal.SIGINT)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        shown = [word.decode(errors="replace") for word in words if word]
        return f"{Path(f'/proc/{pid}/comm').read_text().strip()}: {' '.join(shown)[:90]}"
    return "something that ended"


def _descendants(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(word), *_descendants(int(word))]
    return found
