"""Takes the connections to clusters that sleep: `manta activator`, on any Kubernetes.

For each RayCluster that the operator suspended for idleness it adds an EndpointSlice to the head Service that names
itself, with a port of its own for each port at which a cluster is used. The first connection resumes the cluster; all are held until
the head is ready and then passed on to it. The slice goes when the cluster is awake, or this process stops; if it is
killed, with the ClusterRole that owns the slice.

A headless Service has no address of its own: its name would lead to this process at Ray's own ports, where it
could not tell clusters apart. Such clusters are left alone, with a Warning in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from manta.api.core import Service, ServicePort
from manta.api.meta import Key, Object, ObjectMeta
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import CLUSTER_ROLES, ENDPOINT_SLICES, SERVICES
from manta.api.well_known import LABEL_ENDPOINT_SLICE_MANAGED_BY, LABEL_SERVICE_NAME
from manta.client.waking import NO_USE, Waker, sleeps
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, Conflict, MantaError, NotFound
from manta.localplane.node.net.relay import Streams, close_connection, has_left, relay
from manta.localplane.waking import wake_for_client
from manta.rules.traits import head_service_name
from manta.runtime.informer import Informer

NAME: Final = "manta-activator"
RETRY_SECONDS: Final = 10.0
DIAL_SECONDS: Final = 5.0
STOP_SECONDS: Final = 20.0
"""A Pod has 30 seconds to stop."""
MAX_HELD: Final = 1000
"""Connections that are held at once; further ones are closed."""

log = logging.getLogger(__name__)


@dataclass
class _StandIn:
    """What stands in for one head Service."""

    cluster: RayCluster
    service: Service
    servers: dict[str, asyncio.Server] = field(default_factory=dict)
    uid: str = ""
    """The UID of the EndpointSlice; empty while it is not known whether there is one."""

    @property
    def key(self) -> Key:
        return Key(self.service.metadata.namespace, f"{self.service.metadata.name}-{NAME}")

    def close(self) -> None:
        for server in self.servers.values():
            server.close()


class Activator:
    def __init__(
        self,
        client: Client,
        address: str,
        listen: str,
        owner: str = "",
        random: Random | None = None,
    ) -> None:
        """`address`: of this process, as other Pods reach it. `listen`: the address to listen on. `owner`: a
        ClusterRole that is deleted with the installation, and the slices with it; default: the head Service."""
        self._client = client
        self._owner = owner
        self._address = address
        self._listen = listen
        self._wake = Waker(client)
        self._clusters = Informer(client, RAY_CLUSTERS, RayCluster, random=random)
        self._stands: dict[Key, _StandIn] = {}
        self._refused: set[Key] = set()
        self._held = 0
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        self._clusters.add_handler(lambda *_: self._changed.set())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._clusters.run(), name="rayclusters")
                await self._clusters.synced.wait()
                await self._remove_leftovers()
                while True:
                    self._changed.clear()
                    pause = None if await self._follow() else RETRY_SECONDS
                    with suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await self._changed.wait()
        finally:
            await self._leave_all()

    async def _leave_all(self) -> None:
        """Otherwise the Service of a cluster that is resumed later leads part of its connections here."""
        try:
            async with asyncio.timeout(STOP_SECONDS):
                for head in tuple(self._stands):
                    await self._leave(head)
        except (MantaError, OSError, TimeoutError) as error:
            left = ", ".join(str(stand.key) for stand in self._stands.values())
            log.warning("these EndpointSlices stay and lead nowhere: %s: %s", left, error)
        for stand in self._stands.values():
            stand.close()

    # ── which clusters sleep ─────────────────────────────────────────────────────────────

    async def _follow(self) -> bool:
        """Stand in for all that sleep, and for no other. False: something has to be tried again."""
        wanted = {self._head(one): one for one in self._clusters.all() if sleeps(one)}
        done = True
        for head in [one for one in self._stands if one not in wanted]:
            if self._wake.is_waking(head):  # its head has an address already, but does not serve
                done = False
            else:
                done &= await self._tried(self._leave(head))
        self._refused &= set(wanted)
        for head, cluster in wanted.items():
            if head not in self._stands and head not in self._refused:
                done &= await self._tried(self._stand_in(head, cluster))
        return done

    async def _tried(self, work: Awaitable[None]) -> bool:
        try:
            await work
        except (MantaError, OSError) as error:
            log.warning("tried again in %.0f s: %s", RETRY_SECONDS, error)
            return False
        return True

    @staticmethod
    def _head(cluster: RayCluster) -> Key:
        return Key(cluster.metadata.namespace, head_service_name(cluster))

    async def _stand_in(self, head: Key, cluster: RayCluster) -> None:
        try:
            service = await self._client.get(SERVICES, head, into=Service)
        except NotFound:
            return
        if service.headless:
            self._refused.add(head)
            log.warning("Service %s is headless: connections to it wake nothing", head)
            return
        stand = self._stands[head] = _StandIn(cluster, service)  # so that a stop removes it
        try:
            for port in service.spec.ports:
                if port.protocol == "TCP" and port.name not in NO_USE:
                    stand.servers[port.name] = await self._open(stand, port)
            await self._publish(stand)
        except (MantaError, OSError):
            stand.close()
            del self._stands[head]
            raise
        log.info("RayCluster %s sleeps: connections to %s wake it", cluster.metadata.key, head)

    async def _leave(self, head: Key) -> None:
        stand = self._stands[head]
        with suppress(NotFound, Conflict):  # a successor has replaced it by its own
            await self._client.delete(ENDPOINT_SLICES, stand.key, uid=stand.uid or None)
        stand.close()
        del self._stands[head]

    async def _publish(self, stand: _StandIn) -> None:
        service = stand.service.metadata
        owner = await self._owner_of(service)
        ports = _ports(stand.servers)
        body = slice_of(stand.key, service.name, owner, self._address, ports)
        try:
            made = await self._client.create(ENDPOINT_SLICES, stand.key.namespace, body)
        except AlreadyExists:  # of a predecessor, at another address
            await self._client.delete(ENDPOINT_SLICES, stand.key)
            made = await self._client.create(ENDPOINT_SLICES, stand.key.namespace, body)
        stand.uid = made.metadata.uid

    async def _owner_of(self, service: ObjectMeta) -> dict[str, Any]:
        """With the Service as a second owner the slice would stay as long as that: the last owner counts."""
        if not self._owner:
            return SERVICES.owner_reference(service)
        role = await self._client.get(CLUSTER_ROLES, Key("", self._owner), into=Object)
        return CLUSTER_ROLES.owner_reference(role.metadata)

    async def _remove_leftovers(self) -> None:
        """Slices of a predecessor lead nowhere."""
        selector = f"{LABEL_ENDPOINT_SLICE_MANAGED_BY}={NAME}"
        for one in (await self._client.list(ENDPOINT_SLICES, labels=selector)).items:
            key = Key(one["metadata"]["namespace"], one["metadata"]["name"])
            with suppress(NotFound):
                await self._client.delete(ENDPOINT_SLICES, key)

    # ── connections ──────────────────────────────────────────────────────────────────────

    async def _open(self, stand: _StandIn, port: ServicePort) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._held >= MAX_HELD:
                writer.transport.abort()
                return
            self._held += 1
            try:
                await self._pass_on(stand, port, (reader, writer))
            finally:
                self._held -= 1
                self._changed.set()

        return await asyncio.start_server(serve, self._listen, 0)

    async def _pass_on(self, stand: _StandIn, port: ServicePort, client: Streams) -> None:
        _, writer = client
        head = self._head(stand.cluster)

        await wake_for_client(
            self._wake, head, port.name, has_endpoints=False, has_left=lambda: has_left(client)
        )
        self._changed.set()
        try:
            target = await self._dial(stand.cluster.metadata.key, port)
        except (OSError, MantaError) as error:
            log.info("a connection to %s is closed: %s", head, error)
            writer.transport.abort()
            await close_connection(writer)
            return
        await relay(client, target)

    async def _dial(self, key: Key, port: ServicePort) -> Streams:
        """Connect to the head of the cluster. Raises OSError, MantaError."""
        address = (await self._client.get(RAY_CLUSTERS, key, into=RayCluster)).status.head.pod_ip
        if not address:
            raise ConnectionRefusedError(f"RayCluster {key} has no head")
        target = port.target_port
        number = target if isinstance(target, int) and target else port.port
        async with asyncio.timeout(DIAL_SECONDS):
            return await asyncio.open_connection(address, number)


def _ports(servers: Mapping[str, asyncio.Server]) -> dict[str, int]:
    return {name: server.sockets[0].getsockname()[1] for name, server in servers.items()}


def slice_of(
    key: Key, service: str, owner: Mapping[str, Any], address: str, ports: Mapping[str, int]
) -> dict[str, Any]:
    """The EndpointSlice that leads the ports of a Service to this process."""
    return {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": ENDPOINT_SLICES.kind,
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {
                LABEL_SERVICE_NAME: service,
                LABEL_ENDPOINT_SLICE_MANAGED_BY: NAME,
            },
            "ownerReferences": [owner],
        },
        "addressType": "IPv6" if ":" in address else "IPv4",
        "ports": [
            {"name": name, "port": number, "protocol": "TCP"} for name, number in ports.items()
        ],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }
