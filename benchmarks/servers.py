"""The two servers that are compared: the embedded one and a real kube-apiserver with etcd.

Both listen on loopback with TLS in processes of their own. The real one is there where Go has
built it (`tools/kubernetes`); where it is not, `kubernetes` says so with None.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.kubernetes import run as kubernetes_run

from benchmarks.wire import Target
from manta.kube.config import load
from manta.kube.tls import client_context, read_pem

TIMEOUT = 60.0
BUILD = Path(kubernetes_run.__file__).with_name("build.sh")


@dataclass(frozen=True, slots=True)
class Running:
    """A server and the processes that it consists of."""

    name: str
    kubeconfig: Path
    target: Target
    pids: tuple[int, ...]
    seconds_to_ready: float

    @property
    def api_server_pid(self) -> int:
        """The process that answers API requests: kube-apiserver, without etcd and the controllers."""
        named = [pid for pid in self.pids if _command(pid) == "kube-apiserver"]
        return named[0] if named else self.pids[0]


def target_of(kubeconfig: Path) -> Target:
    cluster = load(kubeconfig)
    user = cluster.user
    certificate = b"" if user.certificate is None else read_pem(user.certificate, "certificate")
    key = b"" if user.key is None else read_pem(user.key, "key")
    return Target(cluster.server, client_context(cluster, certificate, key), user.token)


@contextmanager
def embedded(directory: Path, *options: str) -> Iterator[Running]:
    """`manta apiserver` on SQLite. Ready is when its kubeconfig is there."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    command = [str(Path(sys.executable).with_name("manta")), "apiserver"]
    command += ["--dir", str(directory), *options]
    kubeconfig = directory / "kubeconfig"
    began = time.perf_counter()
    with kubernetes_run.running(directory, "apiserver", command) as process:
        while not kubeconfig.exists():
            if process.poll() is not None or time.perf_counter() - began > TIMEOUT:
                raise RuntimeError((directory / "apiserver.log").read_text()[-2000:])
            time.sleep(0.002)
        ready = time.perf_counter() - began
        yield Running("embedded", kubeconfig, target_of(kubeconfig), (process.pid,), ready)


def binaries() -> Path | None:
    """Where the real server's programs lie; None where there is no Go to build them with."""
    if shutil.which("go") is None:
        return None
    built = subprocess.run(["bash", str(BUILD)], stdout=subprocess.PIPE, text=True, check=False)
    return Path(built.stdout.strip().splitlines()[-1]) if built.returncode == 0 else None


@contextmanager
def kubernetes(directory: Path, *without: str) -> Iterator[Running | None]:
    """kube-apiserver and etcd, and the parts that are not in `without`."""
    programs = binaries()
    if programs is None:
        yield None
        return
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with ExitStack() as stack:
        began = time.perf_counter()
        before = _children()
        kubeconfig = kubernetes_run.control_plane(stack, programs, directory, set(without))
        ready = time.perf_counter() - began
        pids = tuple(sorted(_children() - before))
        yield Running("kubernetes", kubeconfig, target_of(kubeconfig), pids, ready)


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _children() -> set[int]:
    own = os.getpid()
    return {int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split()}
