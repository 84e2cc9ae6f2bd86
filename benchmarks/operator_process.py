"""The operator as a process of its own, under its own ServiceAccount, and what it needs.

What it asked of the server is read from its metrics, its time and memory from /proc.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.kubernetes.run import running

from benchmarks.memory import cpu_seconds, peak_mib
from benchmarks.servers import Running
from manta.install.plane import install, operator_token
from manta.kube.client import Client
from manta.kube.config import load
from manta.kube.transport import HttpTransport
from manta.localplane.kubeconfig import write_kubeconfig


@dataclass(frozen=True, slots=True)
class Operator:
    pid: int
    metrics: str
    counter: str = "manta_api_requests_total"
    names: tuple[str, ...] = ("verb", "resource")

    def requests(self) -> Counter[str]:
        """What it has asked so far, as `create pods`; as `POST` where it does not tell more."""
        found: Counter[str] = Counter()
        text = urllib.request.urlopen(self.metrics, timeout=20).read().decode()
        for line in text.splitlines():
            if line.startswith(f"{self.counter}{{"):
                labels, _, count = line.partition("{")[2].rpartition("} ")
                values = dict(one.split("=", 1) for one in labels.split(","))
                name = " ".join(values[each].strip('"') for each in self.names)
                found[name] += int(float(count))
        return found


WATCHING = ("watch", "list", "GET")
"""KubeRay does not tell its watches from its reads."""


def only_work(requests: Counter[str]) -> Counter[str]:
    """Without what keeps the caches: watches that are renewed."""
    return Counter({name: n for name, n in requests.items() if not name.startswith(WATCHING)})


def writes(requests: Counter[str]) -> Counter[str]:
    read = ("watch", "list", "get")
    return Counter({name: n for name, n in requests.items() if not name.startswith(read)})


async def prepare(server: Running, directory: Path) -> Path:
    """CRDs, the operator's account and permissions; answers with its kubeconfig."""
    cluster = load(server.kubeconfig)
    client = Client(HttpTransport(cluster))
    try:
        await install(client)
        token = await operator_token(client, 7200)
    finally:
        await client.close()
    authority = cluster.ca.read_bytes() if isinstance(cluster.ca, Path) else cluster.ca or b""
    path = directory / "operator.kubeconfig"
    write_kubeconfig(path, url=cluster.server, authority=authority.decode(), token=token)
    return path


@asynccontextmanager
async def an_operator(kubeconfig: Path, log: Path, *flags: str) -> AsyncIterator[Operator]:
    """With its default settings, but no election: a lease is renewed whatever happens."""
    port = _free_port()
    command = [sys.executable, "-m", "manta.cli.main", "operator", f"--kubeconfig={kubeconfig}"]
    command += [*_without_election(port), *flags]
    with running(log.parent, log.stem, command) as process:
        operator = Operator(process.pid, f"http://127.0.0.1:{port}/metrics")
        await _until_asked(operator, "watch pods", log)
        yield operator


@asynccontextmanager
async def kuberay(
    program: Path, kubeconfig: Path, log: Path, *flags: str
) -> AsyncIterator[Operator]:
    """KubeRay's operator, the peer."""
    port = _free_port()
    command = [str(program), *_without_election(port), *flags]
    command += ["--feature-gates=RayServiceIncrementalUpgrade=false"]  # it wants a Gateway's kinds
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with running(log.parent, log.stem, command, environment) as process:
        url = f"http://127.0.0.1:{port}/metrics"
        operator = Operator(process.pid, url, "rest_client_requests_total", ("method",))
        await _until_asked(operator, "GET", log)
        yield operator


def _without_election(port: int) -> list[str]:
    address = f"--metrics-addr=127.0.0.1:{port}"
    return ["--enable-leader-election=false", address, "--health-probe-bind-address=0"]


async def _until_asked(operator: Operator, name: str, log: Path) -> None:
    for _ in range(300):
        try:
            if (await asyncio.to_thread(operator.requests))[name]:
                return
        except OSError:
            pass
        await asyncio.sleep(0.1)
    raise RuntimeError(log.read_text()[-2000:])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Phase:
    """What the operator and the API server needed between two moments."""

    operator: Operator
    server_pid: int
    began: float = 0.0
    _asked: Counter[str] = field(default_factory=Counter)
    _cpu: float = 0.0
    _server_cpu: float = 0.0

    async def begin(self) -> Phase:
        self._asked = await asyncio.to_thread(self.operator.requests)
        Path(f"/proc/{self.operator.pid}/clear_refs").write_text("5")  # resets the peak
        self._cpu = cpu_seconds(self.operator.pid)
        self._server_cpu = cpu_seconds(self.server_pid)
        self.began = time.perf_counter()
        return self

    def cpu(self) -> float:
        return cpu_seconds(self.operator.pid) - self._cpu

    def server_cpu(self) -> float:
        return cpu_seconds(self.server_pid) - self._server_cpu

    def peak(self) -> float:
        return peak_mib(self.operator.pid)

    async def requests(self) -> Counter[str]:
        return (await asyncio.to_thread(self.operator.requests)) - self._asked
