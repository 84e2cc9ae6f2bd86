"""The activator: an EndpointSlice while a cluster sleeps, held connections, and nothing when it is awake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from manta.api.core import Service
from manta.api.discovery import EndpointSlice
from manta.api.meta import Key
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import CLUSTER_ROLES, ENDPOINT_SLICES, SERVICES
from manta.cli.server.activator import Activator, slice_of
from manta.kube.errors import Forbidden
from manta.localplane.builtin.garbage_collector.controller import GarbageCollector
from manta.localplane.builtin.metadata_watcher.watcher import MetadataWatcher
from manta.runtime.manager import Manager
from support.plane import MemoryPlane, memory_plane
from support.raycluster import NAMESPACE, ray_cluster
from support.raycrds import ray_crds
from support.virtual import running

KEY = Key(NAMESPACE, "demo")
SLICE = Key(NAMESPACE, "demo-head-svc-manta-activator")
SLEEPS = {"manta.ray.io/idle-suspended": "2026-01-01T00:00:00Z"}

_NOW = {"lastTransitionTime": "2026-01-01T00:00:00Z", "message": "", "reason": "Test"}
SUSPENDED = {"conditions": [{"type": "RayClusterSuspended", "status": "True"} | _NOW]}


@asynccontextmanager
async def a_plane(
    *, headless: bool = False, marks: dict[str, str] = SLEEPS
) -> AsyncIterator[tuple[MemoryPlane, int]]:
    """A RayCluster that sleeps with its head Service, and the port on which its head will listen."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"awake, " + await reader.readline())
        writer.close()

    head = await asyncio.start_server(serve, "127.0.0.1", 0)
    port: int = head.sockets[0].getsockname()[1]
    async with memory_plane(crds=ray_crds()) as plane:
        body = ray_cluster(annotations=marks, suspend=True)
        made = await plane.client.create(RAY_CLUSTERS, NAMESPACE, body)
        owner = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "name": "demo",
            "controller": True,
        }
        ports = [
            {"name": "client", "port": 10001, "targetPort": port},
            {"name": "dashboard", "port": 8265, "targetPort": port},
            {"name": "metrics", "port": 8080, "targetPort": port},
        ]
        service = {
            "metadata": {
                "name": "demo-head-svc",
                "ownerReferences": [owner | {"uid": made.metadata.uid}],
            },
            "spec": {"ports": ports} | ({"clusterIP": "None"} if headless else {}),
        }
        await plane.client.create(SERVICES, NAMESPACE, service)
        await plane.client.patch(RAY_CLUSTERS, KEY, {"status": SUSPENDED}, subresource="status")
        try:
            yield plane, port
        finally:
            head.close()


async def slices(plane: MemoryPlane) -> list[EndpointSlice]:
    return (await plane.client.list(ENDPOINT_SLICES, NAMESPACE, into=EndpointSlice)).items


async def the_slice(plane: MemoryPlane) -> EndpointSlice:
    async with asyncio.timeout(30):
        while not (found := await slices(plane)):
            await asyncio.sleep(0.05)
    (one,) = found
    return one


@asynccontextmanager
async def garbage_collector(plane: MemoryPlane) -> AsyncIterator[None]:
    manager = Manager(plane.client, plane.clock, Random(3))
    kinds = MetadataWatcher(manager, {})
    manager.add_service("all kinds", kinds.run)
    GarbageCollector(manager, kinds)
    async with running(manager.run()):
        yield


async def cluster(plane: MemoryPlane) -> RayCluster:
    return await plane.client.get(RAY_CLUSTERS, KEY, into=RayCluster)


async def start_head(plane: MemoryPlane) -> None:
    """What the operator and the kubelet do once the cluster is resumed."""
    while (await cluster(plane)).spec.suspend:
        await asyncio.sleep(0.05)
    now = {"lastTransitionTime": "2026-01-01T00:00:00Z", "message": "", "reason": "Ready"}
    status: dict[str, Any] = {
        "head": {"podIP": "127.0.0.1"},
        "conditions": [{"type": "HeadPodReady", "status": "True"} | now],
    }
    body = {"status": status, "metadata": {"annotations": dict.fromkeys(SLEEPS)}}
    await plane.client.patch(RAY_CLUSTERS, KEY, body, subresource="status")


def port_of(one: EndpointSlice, name: str) -> int:
    (found,) = [port.port for port in one.ports if port.name == name]
    assert found is not None
    return found


async def ask(port: int, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_the_first_connections_wake_a_cluster_and_are_served_by_its_head() -> None:
    async with (
        a_plane() as (plane, _),
        running(Activator(plane.client, "192.0.2.1", "127.0.0.1").run()),
    ):
        one = await the_slice(plane)
        assert one.metadata.labels["kubernetes.io/service-name"] == "demo-head-svc"
        assert one.endpoints[0].addresses == ("192.0.2.1",)
        # A metrics server would find the port by the slice, and never let the cluster sleep.
        assert {port.name for port in one.ports} == {"client", "dashboard"}
        starting = asyncio.create_task(start_head(plane))
        answers = await asyncio.gather(
            ask(port_of(one, "dashboard"), b"job\n"), ask(port_of(one, "client"), b"session\n")
        )
        assert (*answers,) == (b"awake, job\n", b"awake, session\n")
        await starting
        async with asyncio.timeout(30):
            while await slices(plane):
                await asyncio.sleep(0.05)


async def test_a_client_that_gives_up_costs_nothing() -> None:
    async with (
        a_plane() as (plane, _),
        running(Activator(plane.client, "192.0.2.1", "127.0.0.1").run()),
    ):
        port = port_of(await the_slice(plane), "dashboard")
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        while (await cluster(plane)).spec.suspend:
            await asyncio.sleep(0.05)
        writer.close()
        starting = asyncio.create_task(start_head(plane))
        assert await ask(port, b"another\n") == b"awake, another\n"
        await starting


@pytest.mark.parametrize(
    "fields", [{"headless": True}, {"marks": {}}], ids=["headless", "not ours"]
)
async def test_what_it_cannot_or_must_not_wake_is_left_alone(fields: dict[str, Any]) -> None:
    async with (
        a_plane(**fields) as (plane, _),
        running(Activator(plane.client, "192.0.2.1", "127.0.0.1").run()),
    ):
        await asyncio.sleep(1)
        assert await slices(plane) == []
        assert (await cluster(plane)).spec.suspend is True


async def test_nothing_leads_to_an_activator_that_has_stopped() -> None:
    async with a_plane() as (plane, _):
        async with running(Activator(plane.client, "192.0.2.1", "127.0.0.1").run()):
            await the_slice(plane)
        assert await slices(plane) == []


async def test_a_stop_says_what_it_cannot_delete(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise Forbidden(403, "Forbidden", "the role is gone")

    async with a_plane() as (plane, _):
        async with running(Activator(plane.client, "192.0.2.1", "127.0.0.1").run()):
            await the_slice(plane)
            monkeypatch.setattr(plane.client, "delete", refuse)
        assert "default/demo-head-svc-manta-activator: the role is gone" in caplog.text


async def test_what_an_activator_leaves_behind_goes_with_its_installation() -> None:
    async with a_plane() as (plane, _), garbage_collector(plane):
        await plane.client.create(CLUSTER_ROLES, "", {"metadata": {"name": "of-the-chart"}})
        activator = Activator(plane.client, "192.0.2.1", "127.0.0.1", owner="of-the-chart")
        async with running(activator.run()):
            await the_slice(plane)
            await plane.client.delete(CLUSTER_ROLES, Key("", "of-the-chart"))
            async with asyncio.timeout(30):
                while await slices(plane):
                    await asyncio.sleep(0.05)


async def test_what_stops_late_leaves_the_slice_of_its_successor() -> None:
    """A node is drained: the next activator starts while the last one still ends."""
    async with a_plane() as (plane, _):
        async with running(Activator(plane.client, "192.0.2.1", "127.0.0.1").run()):
            await the_slice(plane)
            successor = Activator(plane.client, "192.0.2.2", "127.0.0.1")
            task = asyncio.create_task(successor.run())
            async with asyncio.timeout(30):
                while (await the_slice(plane)).endpoints[0].addresses != ("192.0.2.2",):
                    await asyncio.sleep(0.05)
        assert (await the_slice(plane)).endpoints[0].addresses == ("192.0.2.2",)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await slices(plane) == []


async def test_a_successor_takes_over_at_its_own_address() -> None:
    async with a_plane() as (plane, _):
        service = await plane.client.get(SERVICES, Key(NAMESPACE, "demo-head-svc"), into=Service)
        owner = SERVICES.owner_reference(service.metadata)
        left = slice_of(SLICE, "demo-head-svc", owner, "192.0.2.2", {})
        await plane.client.create(ENDPOINT_SLICES, NAMESPACE, left)
        async with (
            running(Activator(plane.client, "192.0.2.1", "127.0.0.1").run()),
            asyncio.timeout(30),
        ):
            while (await the_slice(plane)).endpoints[0].addresses != ("192.0.2.1",):
                await asyncio.sleep(0.05)
