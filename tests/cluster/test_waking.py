"""A RayCluster that sleeps is woken by who uses its head: through the API server's proxy, and by its Service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any

import pytest

from manta.api.discovery import EndpointSlice
from manta.api.meta import Key
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import ENDPOINT_SLICES, SERVICES
from manta.cli.dashboard import why_no_head
from manta.client.waking import Waker
from manta.kube.errors import ApiError
from manta.localplane.node.net.sockets import PodSockets
from manta.localplane.node.services.proxy import Backend, ServiceProxy
from support.connector import LocalConnector
from support.plane import MemoryPlane, memory_plane
from support.raycluster import NAMESPACE, ray_cluster
from support.raycrds import ray_crds

KEY = Key(NAMESPACE, "demo")
HEAD = Key(NAMESPACE, "demo-head-svc")
SLEEPS = {"manta.ray.io/idle-suspended": "2026-01-01T00:00:00Z"}
PATH = f"/api/v1/namespaces/{NAMESPACE}/services/demo-head-svc:dashboard/proxy/api/version"


@asynccontextmanager
async def a_plane(
    conditions: tuple[str, ...] = ("RayClusterSuspended",), **fields: Any
) -> AsyncIterator[tuple[MemoryPlane, int, asyncio.Event]]:
    """A plane with a RayCluster, its head Service without endpoints, and the port of what will be its dashboard."""

    ready = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert ready.is_set(), "the head does not serve yet"
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nawake")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    async with memory_plane(crds=ray_crds()) as plane:
        connector = LocalConnector()
        connector.ports[port] = port
        plane.app.connector = connector
        plane.app.wake = Waker(plane.client)
        given: dict[str, Any] = {"suspend": True, "annotations": SLEEPS} | fields
        made = await plane.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster(**given))
        owner = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "name": "demo",
            "uid": made.metadata.uid,
            "controller": True,
        }
        service = {
            "metadata": {"name": "demo-head-svc", "ownerReferences": [owner]},
            "spec": {"clusterIP": "None", "ports": [{"name": "dashboard", "port": 8265}]},
        }
        await plane.client.create(SERVICES, NAMESPACE, service)
        await set_conditions(plane, *conditions)
        try:
            yield plane, port, ready
        finally:
            server.close()


async def start_head(plane: MemoryPlane, port: int, ready: asyncio.Event) -> None:
    """As the operator and the node do once the cluster is resumed."""
    while (await cluster(plane)).spec.suspend:
        await asyncio.sleep(0.05)
    body = {
        "metadata": {
            "name": "demo-head",
            "labels": {"kubernetes.io/service-name": "demo-head-svc"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "dashboard", "port": port, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": ["10.0.0.9"],
                "conditions": {"ready": True},
                "targetRef": {"kind": "Pod", "name": "head", "namespace": NAMESPACE},
            }
        ],
    }
    await plane.client.create(ENDPOINT_SLICES, NAMESPACE, body)
    await asyncio.sleep(0.5)  # it has an address, but does not serve yet
    ready.set()
    await set_conditions(plane, "HeadPodReady")


async def set_conditions(plane: MemoryPlane, *types: str) -> None:
    now = {"lastTransitionTime": "2026-01-01T00:00:00Z", "message": "", "reason": "Test"}
    status = {"status": {"conditions": [{"type": one, "status": "True"} | now for one in types]}}
    await plane.client.patch(RAY_CLUSTERS, KEY, status, subresource="status")


async def cluster(plane: MemoryPlane) -> RayCluster:
    return await plane.client.get(RAY_CLUSTERS, KEY, into=RayCluster)


async def test_a_request_to_a_cluster_that_sleeps_wakes_it_and_is_answered_when_it_is_ready() -> (
    None
):
    async with a_plane() as (plane, port, ready):
        starting = asyncio.create_task(start_head(plane, port, ready))
        first = asyncio.create_task(plane.client.send("GET", PATH))
        while not (await plane.client.list(ENDPOINT_SLICES, NAMESPACE)).items:
            await asyncio.sleep(0.01)
        later = [asyncio.create_task(plane.client.send("GET", PATH)) for _ in range(3)]
        answers = await asyncio.gather(first, *later)
        assert [one.body for one in answers] == [b"awake"] * 4
        await starting
        assert (await cluster(plane)).spec.suspend is False


UNTOUCHED: dict[str, dict[str, Any]] = {
    "suspended by the user": {"annotations": {}},
    "never suspended": {"annotations": SLEEPS, "suspend": False},
}


@pytest.mark.parametrize("fields", UNTOUCHED.values(), ids=UNTOUCHED)
async def test_what_the_operator_did_not_suspend_is_not_woken(fields: dict[str, Any]) -> None:
    async with a_plane(**fields) as (plane, _, _):
        before = await cluster(plane)
        with pytest.raises(ApiError, match="no endpoints available"):
            await plane.client.send("GET", PATH)
        assert await cluster(plane) == before


NO_HEAD: dict[str, tuple[dict[str, Any], tuple[str, ...], str]] = {
    "suspended": (
        {},
        ("RayClusterSuspended",),
        f"RayCluster {KEY} is suspended: `manta resume demo -n {NAMESPACE}`",
    ),
    "in a queue": (
        {"labels": {"kueue.x-k8s.io/queue-name": "q"}},
        ("RayClusterSuspended",),
        f"RayCluster {KEY} is suspended: Kueue decides when it runs",
    ),
    "starting": (
        {"suspend": False},
        (),
        f"the head of RayCluster {KEY} is not ready: see `manta status`",
    ),
    "ready": ({"suspend": False}, ("HeadPodReady",), ""),
}


@pytest.mark.parametrize(("fields", "conditions", "said"), NO_HEAD.values(), ids=NO_HEAD)
async def test_manta_dashboard_says_why_there_is_no_head(
    fields: dict[str, Any], conditions: tuple[str, ...], said: str
) -> None:
    async with a_plane(conditions, **{"annotations": {}} | fields) as (plane, _, _):
        assert await why_no_head(plane.client, HEAD) == said


async def test_another_service_of_the_cluster_does_not_wake_it() -> None:
    async with a_plane() as (plane, _, _):
        service = await plane.client.get(SERVICES, HEAD)
        other = {"name": "other", "ownerReferences": service["metadata"]["ownerReferences"]}
        await plane.client.create(
            SERVICES, NAMESPACE, {"metadata": other, "spec": service["spec"] | {"clusterIP": None}}
        )
        assert not await Waker(plane.client)(Key(NAMESPACE, "other"))
        assert not await Waker(plane.client)(Key(NAMESPACE, "nothing"))
        assert (await cluster(plane)).spec.suspend is True


async def test_a_cluster_is_not_woken_before_its_pods_are_gone_nor_for_who_has_left() -> None:
    """Its own workers, which end after the head, connect to it as well."""
    async with a_plane(("RayClusterSuspending",)) as (plane, port, ready):
        wake = Waker(plane.client)
        left = asyncio.create_task(wake(HEAD, "dashboard"))
        await asyncio.sleep(0.5)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        await set_conditions(plane, "RayClusterSuspended")
        async with asyncio.timeout(10):
            while wake.is_waking(HEAD):
                await asyncio.sleep(0.05)
        assert (await cluster(plane)).spec.suspend is True

        await set_conditions(plane, "RayClusterSuspending")
        starting = asyncio.create_task(start_head(plane, port, ready))
        waits = asyncio.create_task(wake(HEAD, "dashboard"))
        await asyncio.sleep(0.5)
        assert (await cluster(plane)).spec.suspend is True
        await set_conditions(plane, "RayClusterSuspended")
        assert await waits
        await starting


@pytest.mark.parametrize("name", ["metrics", "8080", "gcs-server", "6379"])
async def test_a_port_at_which_nobody_uses_a_cluster_does_not_wake_it(name: str) -> None:
    async with a_plane() as (plane, _, _):
        assert not await Waker(plane.client)(HEAD, name)
        assert (await cluster(plane)).spec.suspend is True


async def test_a_request_for_the_metrics_of_a_cluster_that_sleeps_does_not_wake_it() -> None:
    async with a_plane() as (plane, _, _):
        service = await plane.client.get(SERVICES, HEAD)
        ports = [*service["spec"]["ports"], {"name": "metrics", "port": 8080}]
        await plane.client.patch(SERVICES, HEAD, {"spec": {"ports": ports}})
        with pytest.raises(ApiError, match="no endpoints available"):
            await plane.client.send("GET", PATH.replace(":dashboard", ":metrics"))
        assert (await cluster(plane)).spec.suspend is True


class Here(PodSockets):
    """Connections to Pods end on this machine."""

    def __init__(self) -> None:
        pass

    async def connect(
        self, host: str, port: int, context: SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        del host, context
        return await asyncio.open_connection("127.0.0.1", port)


async def test_a_connection_to_the_service_is_held_until_the_head_is_ready() -> None:
    async with a_plane() as (plane, port, ready), proxied(plane) as address:
        starting = asyncio.create_task(start_head(plane, port, ready))
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET / HTTP/1.1\r\nHost: demo\r\n\r\n")
        assert (await reader.read()).endswith(b"awake")
        writer.close()
        await starting


async def test_a_client_that_gives_up_leaves_nothing_behind() -> None:
    async with a_plane() as (plane, _, _), proxied(plane) as address:
        before = len(asyncio.all_tasks())
        _, writer = await asyncio.open_connection(*address)
        # What it has sent already must not hide that it left.
        writer.write(b"GET / HTTP/1.1\r\nHost: demo\r\n\r\n")
        while (await cluster(plane)).spec.suspend:
            await asyncio.sleep(0.05)
        writer.close()
        async with asyncio.timeout(10):
            while len(asyncio.all_tasks()) > before + 1:  # the cluster itself is still being woken
                await asyncio.sleep(0.05)


@asynccontextmanager
async def proxied(plane: MemoryPlane) -> AsyncIterator[tuple[str, int]]:
    """The node's proxy in front of the head Service, on a port of this machine."""
    known: list[EndpointSlice] = []

    async def follow() -> None:
        while True:
            found = await plane.client.list(ENDPOINT_SLICES, NAMESPACE, into=EndpointSlice)
            known[:] = found.items
            await asyncio.sleep(0.05)

    proxy = ServiceProxy(Here(), "", lambda _: known, None, print, wake=Waker(plane.client))
    following = asyncio.create_task(follow())

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await proxy._serve(Backend(HEAD, "dashboard", 8265), (reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[:2]
    finally:
        following.cancel()
        server.close()
        proxy.close()
