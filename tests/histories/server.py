"""A `manta apiserver` in a process of its own, to be killed at any moment and started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from histories.fork_server import ForkServer
from manta.kube.config import load
from manta.kube.transport import HttpTransport

START_PATIENCE = 60.0
TORN = 4096


class Server:
    """Always at the same place and port, so that clients outlive it."""

    def __init__(
        self, directory: Path, *options: str, fork_server: ForkServer | None = None
    ) -> None:
        self.directory = directory
        self.starts = 0
        self._options = options
        self._port = _free_port()
        self._fork_server = fork_server
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = 0

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def _log(self) -> Path:
        return self.directory.parent / "server.log"

    def transport(self) -> HttpTransport:
        return HttpTransport(load(self.kubeconfig))

    async def start(self) -> None:
        """Returns when it is ready; another process may hold the port for a moment."""
        try:
            async with asyncio.timeout(START_PATIENCE):
                while not await self._try_to_start():
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise RuntimeError(f"it does not start: {self._log.read_text()[-2000:]}") from None
        self.starts += 1

    async def _try_to_start(self) -> bool:
        self.kubeconfig.unlink(missing_ok=True)
        arguments = ["apiserver", "--dir", str(self.directory), "--port", str(self._port)]
        await self._launch([*arguments, *self._options])
        while self._is_alive():
            if self.kubeconfig.exists():
                return True
            await asyncio.sleep(0.005)
        return False

    async def _launch(self, arguments: list[str]) -> None:
        if self._fork_server is not None:
            self._pid = await self._fork_server.start(arguments, self._log)
            return
        with self._log.open("ab") as log:
            command = [str(Path(sys.executable).with_name("manta")), *arguments]
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )
        self._pid = self._process.pid

    def _is_alive(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, 0)
            return True
        return False

    async def kill(self, tear: bytes = b"") -> None:
        """kill -9. `tear` stands for a write that was cut off: it is found after the journal."""
        if not self._pid or not self._is_alive():
            return
        os.killpg(self._pid, signal.SIGKILL)
        while self._is_alive():
            await asyncio.sleep(0.001)
        journal = self.directory / "store.db-wal"
        if tear and journal.exists():
            with journal.open("ab") as file:
                file.write(tear)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
