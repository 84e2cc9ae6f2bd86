"""A whole control plane for the contract suite, reached as clients reach it: over TLS.

The embedded one runs as `manta apiserver --memory` in a process of its own, with its controllers;
where MANTA_CONTRACT_KUBECONFIG names another server, that one is used.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

from manta.kube.config import load
from manta.kube.transport import HttpTransport
from support.contract import EXTERNAL, Api

START_SECONDS = 60.0
T = TypeVar("T")


@contextmanager
def running_plane(directory: Path, *options: str) -> Iterator[Path]:
    """Answers with the kubeconfig; ends the server as Ctrl-C does."""
    external = os.environ.get(EXTERNAL)
    if external:
        yield Path(external)
        return
    command = [str(Path(sys.executable).with_name("manta")), "apiserver", "--memory"]
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--dir", str(directory / "plane"), *options], stdout=log, stderr=log
        )
    try:
        kubeconfig = directory / "plane" / "kubeconfig"
        _await_file(kubeconfig, process, directory / "server.log")
        yield kubeconfig
    finally:
        process.terminate()
        process.wait(30)


def _await_file(path: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while not path.exists():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the server does not start: {log.read_text()[-2000:]}")
        time.sleep(0.02)


@asynccontextmanager
async def api_over_tls(kubeconfig: Path) -> AsyncIterator[Api]:
    """The server as an admin sees it, with a namespace that is complete: accounts included."""
    transport = HttpTransport(load(kubeconfig))
    api = Api(transport, embedded=not os.environ.get(EXTERNAL))
    try:
        body = {"metadata": {"generateName": "contract-"}}
        api.namespace = (await api.made("/api/v1/namespaces", body))["metadata"]["name"]
        await eventually(lambda: _is_there(api, api.path("serviceaccounts", "default")))
        await eventually(lambda: _is_there(api, api.path("configmaps", "kube-root-ca.crt")))
        yield api
        await api.delete(f"/api/v1/namespaces/{api.namespace}")
    finally:
        await transport.close()
        await asyncio.sleep(0.01)  # TLS connections say goodbye in the next turns of the loop


async def _is_there(api: Api, path: str) -> bool:
    return (await api.get(path)).status == 200


async def eventually(true: Callable[[], Awaitable[T]], seconds: float = 30.0) -> T:
    """The first answer that is true. What never becomes true ends the test."""
    async with asyncio.timeout(seconds):
        while not (found := await true()):
            await asyncio.sleep(0.02)
        return found
