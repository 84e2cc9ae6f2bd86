"""The server under test as a process of its own, what it needs, and what its neighbours notice."""

from __future__ import annotations

import asyncio
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.wire import Target
from manta.kube.config import load
from manta.kube.tls import client_context, read_pem

START = 60.0


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    log: Path
    target: Target

    def alive(self) -> bool:
        return self.process.poll() is None

    def peak_mib(self) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", text)[0]) / 1024

    def tracebacks(self) -> list[str]:
        """Unexpected errors that the server logged, each by its last line."""
        text = self.log.read_text(errors="replace")
        found = re.findall(r"Traceback \(most recent call last\):.*?\n(\w[^\n]*)", text, re.DOTALL)
        return sorted(set(found))


def target_of(kubeconfig: Path) -> Target:
    cluster = load(kubeconfig)
    user = cluster.user
    certificate = b"" if user.certificate is None else read_pem(user.certificate, "certificate")
    key = b"" if user.key is None else read_pem(user.key, "key")
    return Target(cluster.server, client_context(cluster, certificate, key), user.token)


@contextmanager
def embedded(directory: Path, *options: str) -> Iterator[Server]:
    """`manta apiserver` until the end of the block."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    command = [str(Path(sys.executable).with_name("manta")), "apiserver", "--dir", str(directory)]
    log, kubeconfig = directory / "server.log", directory / "kubeconfig"
    with log.open("wb") as sink:
        process = subprocess.Popen([*command, *options], stdout=sink, stderr=sink)
    try:
        began = time.monotonic()
        while not kubeconfig.exists():
            if process.poll() is not None or time.monotonic() - began > START:
                raise RuntimeError(log.read_text()[-2000:])
            time.sleep(0.02)
        yield Server(process, log, target_of(kubeconfig))
    finally:
        process.terminate()
        process.wait(20)


@dataclass
class Neighbour:
    """A client that does ordinary things all the while: how long does it wait?"""

    target: Target
    waits: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    async def run(self, every: float = 0.1) -> None:
        while True:
            began = time.perf_counter()
            try:
                await self._ask()
            except (OSError, ssl.SSLError, asyncio.IncompleteReadError) as error:
                self.failures.append(repr(error))
            self.waits.append(time.perf_counter() - began)
            await asyncio.sleep(every)

    async def _ask(self) -> None:
        from random import Random

        from fuzz.corpus import Kind
        from fuzz.requests import Request
        from fuzz.wire import Connection

        kind = Kind("v1", "namespaces", "Namespace", namespaced=False, verbs=("list",))
        async with Connection(self.target, Random(0)) as connection:
            answer = await connection.send(
                Request(0, "get", kind, "GET", "/api/v1/namespaces/default", {"Accept": "*/*"})
            )
        if answer.status != 200:
            self.failures.append(f"status {answer.status}")

    def p99(self) -> float:
        return sorted(self.waits)[int(len(self.waits) * 0.99)] if self.waits else 0.0
