"""U10: `manta exec` as a person types it, on a plane whose containers are this machine."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import PODS
from manta.localplane.apiserver.streaming.connector import ContainerUnavailable
from manta.localplane.node.sandbox.sessions import ExecSession, open_exec
from manta.localplane.plane import Plane, PlaneOptions
from support.connector import LocalConnector
from support.contract import pod
from support.raycluster import ray_cluster
from support.raycrds import ray_crds

pytestmark = pytest.mark.timeout(120)


@dataclass
class _Execution:
    """A process of this machine, with the descriptors that the node's sessions make."""

    process: asyncio.subprocess.Process

    def __post_init__(self) -> None:
        self.exit_code = asyncio.ensure_future(self.process.wait())

    async def kill(self) -> None:
        self.process.kill()
        await self.exit_code


def _take_terminal() -> None:
    """Ctrl-C is for the session whose controlling terminal it is typed at."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # as for every container; a background job ignores it


class TerminalConnector(LocalConnector):
    """Commands get pipes or a real terminal, by the code of the node agent."""

    async def exec(  # type: ignore[override]
        self,
        namespace: str,
        pod: str,
        container: str,
        command: Sequence[str],
        *,
        stdin: bool,
        tty: bool,
    ) -> ExecSession:
        async def start(fds: tuple[int, int, int]) -> Any:
            return _Execution(
                await asyncio.create_subprocess_exec(
                    *command,
                    stdin=fds[0],
                    stdout=fds[1],
                    stderr=fds[2],
                    env={**os.environ, "CONTAINER": container, "POD": pod, "PS1": "ready> "},
                    start_new_session=True,
                    preexec_fn=_take_terminal if tty else None,
                )
            )

        try:
            return await open_exec(start, stdin=stdin, tty=tty)
        except FileNotFoundError as error:
            raise ContainerUnavailable(f"cannot run the command: {error}") from error


@dataclass(frozen=True)
class Shell:
    kubeconfig: Path

    def words(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "manta.cli.main", "exec", *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    async def exec(self, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            *self.words(*arguments), env=self.environment, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        out, err = await process.communicate(stdin)
        return process.returncode or 0, out.decode(), err.decode()


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    options = PlaneOptions(tmp_path / "plane", memory=True, controllers=False)
    async with Plane(options) as plane:
        plane.connector = TerminalConnector()
        for crd in ray_crds():
            plane.app.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", dict(crd))
        labels = {"ray.io/cluster": "demo", "ray.io/node-type": "head"}
        await create(plane, "p", "Running", containers=("main", "side"))
        await create(plane, "demo-head-x1", "Running", labels=labels)
        await create(plane, "over", "Succeeded")
        await plane.client.create(RAY_CLUSTERS, "default", ray_cluster("demo"))
        yield Shell(plane.kubeconfig)


async def create(
    plane: Plane,
    name: str,
    phase: str,
    containers: Sequence[str] = ("main",),
    labels: dict[str, str] | None = None,
) -> None:
    body = pod(name, nodeName="n1")
    first = body["spec"]["containers"][0]
    body["spec"]["containers"] = [{**first, "name": one} for one in containers]
    body["metadata"]["labels"] = labels or {}
    await plane.client.create(PODS, "default", body)
    status = {"status": {"phase": phase}}
    await plane.client.patch(PODS, Key("default", name), status, subresource="status")


class Terminal:
    """`manta exec` with a terminal of its own, as a person sits at it."""

    def __init__(self, shell: Shell, *arguments: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, shell.words(*arguments), shell.environment)
        self.shown = b""
        os.set_blocking(self.fd, False)

    async def until(self, wanted: str) -> str:
        """Wait for the pattern in what is shown."""
        while not (found := re.search(wanted.encode(), self.shown)):
            if (data := self._read()) == b"":
                raise AssertionError(f"the command ended, and showed {self.shown!r}")
            self.shown += data or b""
            await asyncio.sleep(0.02)
        return found.group().decode()

    def _read(self) -> bytes | None:
        try:
            return os.read(self.fd, 65536)
        except BlockingIOError:
            return None
        except OSError:  # a terminal says EIO when its last user is gone
            return b""

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def is_canonical(self) -> bool:
        """Are keys handed over by lines, as at a usual prompt?"""
        return bool(termios.tcgetattr(self.fd)[3] & termios.ICANON)

    async def exit_code(self) -> int:
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            self._read()
            await asyncio.sleep(0.02)


async def test_flags_may_stand_after_the_pod(shell: Shell) -> None:
    code, out, _ = await shell.exec("p", "-c", "side", "--", "sh", "-c", "echo $CONTAINER; exit 3")
    assert (code, out) == (3, "side\n")


async def test_the_words_after_the_dashes_belong_to_the_command(shell: Shell) -> None:
    code, out, _ = await shell.exec("p", "-c", "main", "--", "echo", "-c", "--", "-it")
    assert (code, out) == (0, "-c -- -it\n")


async def test_a_command_without_the_dashes_is_refused_with_the_cure(shell: Shell) -> None:
    code, out, said = await shell.exec("p", "ls")
    assert (code, out) == (2, "")
    assert "manta exec p -- ls" in said
    code, out, said = await shell.exec("p", "-c", "main", "ls", "-l")
    assert (code, out) == (2, "")
    assert "go after --" in said


async def test_input_is_passed_on_to_its_end(shell: Shell) -> None:
    code, out, _ = await shell.exec("-i", "p", "--", "cat", stdin=b"hello")
    assert (code, out) == (0, "hello")


async def test_the_name_of_a_cluster_means_its_head(shell: Shell) -> None:
    code, out, _ = await shell.exec("demo", "--", "sh", "-c", "echo $POD")
    assert (code, out) == (0, "demo-head-x1\n")


@pytest.mark.parametrize(
    ("arguments", "wanted_code", "words"),
    [
        (("nobody",), 1, "no Pod nobody in namespace default"),
        (("p", "-c", "none"), 2, "pod/p has the containers main, side"),
        (("over",), 1, "pod/over has ended (Succeeded)"),
        (("p", "-c", "main", "--", "/no/such/file"), 1, "/no/such/file"),
    ],
)
async def test_errors_are_one_line_of_plain_words(
    shell: Shell, arguments: tuple[str, ...], wanted_code: int, words: str
) -> None:
    dashes = () if "--" in arguments else ("--", "true")
    code, out, said = await shell.exec(*arguments, *dashes)
    assert (code, out) == (wanted_code, "")
    assert words in said
    assert "{" not in said
    assert len(said.splitlines()) == 1


async def test_a_terminal_without_one_here_runs_without_it(shell: Shell) -> None:
    code, out, said = await shell.exec("-it", "p", "-c", "main", "--", "cat", stdin=b"hello")
    assert (code, out) == (0, "hello")
    assert "-t is ignored" in said


async def test_a_shell_has_a_terminal_of_our_size_and_exit_ends_it_at_once(shell: Shell) -> None:
    terminal = Terminal(shell, "-it", "p", "-c", "main", "--", "sh", "-i")
    await terminal.until("ready> ")
    terminal.type("tty && stty size\n")
    await terminal.until(r"/dev/pts/\d+")
    terminal.resize(123, 45)
    while not re.search(rb"\r\n45 123\r\n", terminal.shown):  # the signal takes a moment
        terminal.type("stty size\n")
        await terminal.until(r"\d+ \d+\r\n")
        terminal.shown = terminal.shown[-200:]
        await asyncio.sleep(0.1)
        terminal.shown += terminal._read() or b""
    terminal.type("exit 7\n")  # and nothing after it: no key is needed to end
    assert await terminal.exit_code() == 7


async def test_ctrl_c_goes_to_the_command_and_the_terminal_is_restored(shell: Shell) -> None:
    terminal = Terminal(shell, "-it", "p", "-c", "main", "--", "sh", "-i")
    await terminal.until("ready> ")
    assert not terminal.is_canonical()
    terminal.type("echo a$((1+1))b; sleep 1000\n")
    await terminal.until("a2b")
    terminal.type("\x03")
    terminal.type("echo c$((1+2))d\n")
    await terminal.until("c3d")
    terminal.type("exit\n")
    assert await terminal.exit_code() in (0, 130)
    assert terminal.is_canonical()
