"""Sandboxes for tests of the node agent: real namespaces on a network of their own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from manta.localplane.node.cleanup import remove_everything
from manta.localplane.node.net.address_ranges import RangeRequest, claim_ranges
from manta.localplane.node.net.pod_network import PodNetwork
from manta.localplane.node.pod.snapshot import (
    ContainerFacts,
    ContainerState,
    PodFacts,
    PodSnapshot,
    Progress,
    Step,
    Termination,
)
from manta.localplane.node.sandbox.launcher import Launcher, SandboxSpec
from manta.localplane.node.sandbox.sandbox import Sandbox
from manta.localplane.node.spec.pod_spec import NodePod


class Bench:
    """A launcher and a network in a directory, and the events of every sandbox created here."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.network = PodNetwork.open(
            directory, claim_ranges(directory, RangeRequest(), shared=True)
        )
        self.launcher = Launcher(directory, "root")
        self.sandboxes: list[Sandbox] = []
        self.news: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def sandbox(self, name: str = "pod") -> Sandbox:
        home = self.directory / "pods" / name
        home.mkdir(parents=True)
        await self.launcher.open()
        address = self.network.allocate()
        pid = await self.launcher.create(SandboxSpec(home, name, {"address": str(address)}))
        sandbox = Sandbox(home, pid, self.news.put_nowait)
        cable = self.network.attach(address, pid)
        await self.launcher.configure_network(pid, str(cable.address), str(cable.gateway))
        self.sandboxes.append(sandbox)
        return sandbox

    async def run(self, sandbox: Sandbox, *argv: str, **more: Any) -> str:
        """Start a container; returns its id."""
        spec = container_spec(sandbox, *argv, **more)
        await sandbox.start(spec)
        return str(spec["id"])

    async def next(self, event: str) -> dict[str, Any]:
        while True:
            news = await asyncio.wait_for(self.news.get(), 20)
            if news["event"] == event:
                return news


def container_spec(sandbox: Sandbox, *argv: str, name: str = "main", **more: Any) -> dict[str, Any]:
    record = sandbox.directory / "containers" / name / "0"
    return {
        "id": f"{name}/0",
        "argv": list(argv),
        "env": {"PATH": os.environ["PATH"]},
        "cwd": "/",
        "scratch": str(record / "scratch"),
        "record": str(record),
        "log": str(record / "log"),
        "shm": str(sandbox.directory / "shm"),
        **more,
    }


def log_text(sandbox: Sandbox, name: str = "main") -> str:
    """What a container wrote, without times."""
    lines = (sandbox.directory / "containers" / name / "0" / "log").read_text().splitlines()
    return "\n".join(line.split(" ", 3)[3] for line in lines)


@asynccontextmanager
async def bench(directory: Path) -> AsyncIterator[Bench]:
    made = Bench(directory)
    try:
        yield made
    finally:
        for sandbox in made.sandboxes:
            sandbox.kill()
            await sandbox.ended.wait()
        made.launcher.close()
        made.network.close()
        remove_everything(directory, purge=True)


def a_pod(name: str = "pod", *, status: dict[str, Any] | None = None, **spec: Any) -> NodePod:
    """A Pod as the agent reads it; `spec` as in the API, one container by default."""
    spec.setdefault("containers", [{"name": "main", "image": "busybox"}])
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", **spec.pop("metadata", {})}
    return msgspec.convert(
        {"metadata": meta, "spec": {"nodeName": "manta", **spec}, "status": status or {}}, NodePod
    )


def a_snapshot(
    pod: NodePod, *, now: float = 1000.0, start_time: float = 900.0, **facts: Any
) -> PodSnapshot:
    """A snapshot of a Pod whose volumes and sandbox are there."""
    done = Progress(Step.DONE)
    facts = {"volumes": done, "sandbox": done, "address": "10.88.0.2", **facts}
    return PodSnapshot(pod, PodFacts(**facts), now, "10.88.0.1", start_time)


PULLED = Progress(Step.DONE)


def idle(**more: Any) -> ContainerFacts:
    return ContainerFacts(image=PULLED, image_id="manta://machine", **more)


def running(**more: Any) -> ContainerFacts:
    more = {"attempt": 0, "started": 950.0, **more}
    return ContainerFacts(state=ContainerState.RUNNING, image=PULLED, **more)


def ended(code: int = 0, *, finished: float = 990.0, **more: Any) -> ContainerFacts:
    more = {"attempt": 0, "crashes": 1, **more}
    how = Termination(code=code, started=950.0, finished=finished, error=more.pop("error", ""))
    return ContainerFacts(state=ContainerState.TERMINATED, image=PULLED, termination=how, **more)
