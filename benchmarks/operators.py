"""An operator process beside an embedded plane of this process, for benchmarks that watch it."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.memory import cpu_seconds
from manta.api.crds import crd_documents
from manta.api.resources import CUSTOM_RESOURCE_DEFINITIONS
from manta.localplane.plane import Plane, PlaneOptions

AGENT = "manta-operator"


@dataclass
class Requests:
    """What the operator asked of the server, by method and path."""

    began: float = 0.0
    pid: int = 0
    first_list: float | None = None
    """Seconds from the start of the operator to its first list."""
    first_list_cpu: float = 0.0
    """The CPU seconds of the operator until then, which do not depend on how busy the machine is."""
    seen: list[tuple[str, str]] = field(default_factory=list)

    def note(self, request: Any) -> None:
        if AGENT not in request.headers.get("user-agent", ""):
            return
        self.seen.append((request.method, request.path))
        if self.first_list is None and "/rayclusters" in request.path:
            self.first_list = time.perf_counter() - self.began
            self.first_list_cpu = cpu_seconds(self.pid)


@asynccontextmanager
async def a_plane(**options: Any) -> AsyncIterator[tuple[Plane, Requests]]:
    """A plane in memory with the CRDs, whose requests by the operator are noted."""
    with tempfile.TemporaryDirectory() as directory:
        async with Plane(PlaneOptions(dir=Path(directory), memory=True, **options)) as plane:
            requests = Requests()
            handle = plane.app.handle

            async def noting(request: Any) -> Any:
                requests.note(request)
                return await handle(request)

            plane.app.handle = noting  # type: ignore[method-assign]
            for document in crd_documents():
                await plane.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", document)
            yield plane, requests


@asynccontextmanager
async def an_operator(
    plane: Plane, requests: Requests, *more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`more`: further flags."""
    requests.began = time.perf_counter()
    flags = ["--enable-leader-election=false", "--metrics-addr=127.0.0.1:0"]
    flags += ["--health-probe-bind-address=127.0.0.1:0", f"--kubeconfig={plane.kubeconfig}"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "manta.cli.main",
        "operator",
        *flags,
        *more,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    requests.pid = process.pid
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()


def tell(**measured: Any) -> None:
    print(json.dumps(measured))
