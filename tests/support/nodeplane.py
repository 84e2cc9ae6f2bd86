"""A node agent on the embedded server, for tests: Pods are real processes, the API is in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manta.api.meta import Key
from manta.api.resources import EVENTS, PODS
from manta.cli.plane.foreground import RAY_PROGRAMS
from manta.kube.client import Client
from manta.kube.errors import NotFound
from manta.localplane.apiserver.streaming.connector import LogOptions
from manta.localplane.node.agent import NodeAgent, NodeOptions
from manta.localplane.node.cleanup import remove_everything
from manta.localplane.node.machine import launcher_mode
from manta.localplane.node.net.address_ranges import RangeRequest, claim_ranges
from manta.runtime.clock import SystemClock
from support.plane import MemoryPlane, memory_plane

TIMEOUT = 20.0
Pod = dict[str, Any]


@dataclass(slots=True)
class NodePlane:
    plane: MemoryPlane
    options: NodeOptions
    agent: NodeAgent
    task: asyncio.Task[None]

    @property
    def client(self) -> Client:
        return self.plane.client

    def service_address(self, number: int) -> str:
        """An address of this plane's range that no other plane of the machine has."""
        assert self.options.ranges is not None
        return str(self.options.ranges.services[number])

    async def restart_agent(self) -> None:
        """End the agent as a crash of its loop would, and start another."""
        await stop(self.task)
        self.agent, self.task = await start(self.plane, self.options)

    # ── Pods ───────────────────────────────────────────────────────────────────────────
    async def run(self, name: str = "pod", *argv: str, **spec: Any) -> None:
        """Create a Pod of one container that is bound to our node."""
        await self.create(name, a_container(*argv, **spec.pop("container", {})), **spec)

    async def create(self, name: str, *containers: dict[str, Any], **spec: Any) -> None:
        meta = {"name": name, **spec.pop("metadata", {})}
        body = {
            "metadata": meta,
            "spec": {
                "nodeName": self.agent.names[0],
                "automountServiceAccountToken": False,
                "containers": list(containers),
                **spec,
            },
        }
        await self.client.create(PODS, "default", body)

    async def get(self, name: str = "pod") -> Pod:
        return await self.client.get(PODS, Key("default", name))

    async def until(self, wanted: Callable[[Pod], Any], name: str = "pod") -> Pod:
        """Wait until the Pod is as wanted; a timeout shows its last state."""
        pod: Pod = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT):
                while True:
                    pod = await self.get(name)
                    if wanted(pod):
                        return pod
                    await asyncio.sleep(0.02)
        raise AssertionError(f"Pod {name} never became as wanted: {pod.get('status')}")

    async def until_phase(self, phase: str, name: str = "pod") -> Pod:
        return await self.until(lambda pod: pod.get("status", {}).get("phase") == phase, name)

    async def until_ready(self, name: str = "pod", *, ready: bool = True) -> Pod:
        return await self.until(lambda pod: is_ready(pod) == ready, name)

    async def delete(self, name: str = "pod", grace: int | None = None) -> None:
        await self.client.delete(PODS, Key("default", name), grace_seconds=grace)

    async def until_gone(self, name: str = "pod") -> None:
        with suppress(NotFound):
            await self.until(lambda _: False, name)
            raise AssertionError("unreachable")

    # ── what it did ────────────────────────────────────────────────────────────────────
    async def logs(self, name: str = "pod", container: str = "main", **options: Any) -> str:
        stream = await self.agent.connector.logs("default", name, container, LogOptions(**options))
        return b"".join([chunk async for chunk in stream]).decode()

    async def execute(self, *command: str, name: str = "pod", container: str = "main") -> str:
        session = await self.agent.connector.exec(
            "default", name, container, command, stdin=False, tty=False
        )
        output = b""
        while data := await session.stdout.read(65536):
            output += data
        await session.wait()
        await session.close()
        return output.decode()

    async def reasons(self, name: str = "pod") -> dict[str, str]:
        """Events of a Pod: reason -> note."""
        events = (await self.client.list(EVENTS, "default")).items
        about = [event for event in events if event["regarding"]["name"] == name]
        return {event["reason"]: event.get("note", "") for event in about}


def a_container(*argv: str, name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox", "command": list(argv), **more}


def is_ready(pod: Pod) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def state(pod: Pod, container: str = "main", *, last: bool = False) -> dict[str, Any]:
    status = pod.get("status", {})
    known = [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]
    found: Pod = next((one for one in known if one["name"] == container), {})
    shown: Pod = found.get("lastState" if last else "state", {})
    return shown


def restarts(pod: Pod) -> int:
    statuses = pod.get("status", {}).get("containerStatuses", [])
    return statuses[0]["restartCount"] if statuses else 0


async def start(plane: MemoryPlane, options: NodeOptions) -> tuple[NodeAgent, asyncio.Task[None]]:
    agent = NodeAgent(plane.client, SystemClock(), options)
    task = asyncio.create_task(agent.run())
    ready = asyncio.create_task(agent.ready.wait())
    await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        ready.cancel()
        await task
    return agent, task


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@asynccontextmanager
async def node_plane(directory: Path, **options: Any) -> AsyncIterator[NodePlane]:
    chosen = NodeOptions(
        dir=directory,
        **{"cache": directory / "images", "programs": RAY_PROGRAMS, **options},
    )
    ranges = claim_ranges(directory, RangeRequest(), shared=launcher_mode(chosen) == "root")
    chosen = replace(chosen, ranges=ranges)
    async with memory_plane(services=ranges.services) as plane:
        agent, task = await start(plane, chosen)
        made = NodePlane(plane, chosen, agent, task)
        try:
            yield made
        finally:
            await stop(made.task)
            remove_everything(directory, purge=True)
