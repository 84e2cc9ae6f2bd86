"""Service addresses: a TCP and UDP proxy on every ClusterIP and NodePort, in this process.

The whole service range is local to the bridge (see network.py), so a listener on 10.96.x.y:port is all
a Service needs: no packet filter, no privileges beyond those for the bridge. Every new connection goes
to a ready endpoint.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from manta.api.addresses import parse_address, special_address
from manta.api.core import Service, ServicePort
from manta.api.discovery import Endpoint, EndpointSlice
from manta.api.meta import Key
from manta.localplane.node.datagrams import DatagramDoor
from manta.localplane.node.relay import Conversations, Streams, hang_up, relay
from manta.localplane.node.sockets import PodSockets, machine_datagrams, machine_listener

_DIAL_TIMEOUT = 5.0
_SERVICE_LABEL = "kubernetes.io/service-name"
KUBERNETES = Key("default", "kubernetes")


@dataclass(frozen=True, slots=True)
class Door:
    """An address on which a Service is reached."""

    host: str
    port: int
    outside: bool = False
    """On the machine's loopback (NodePort), not on the Pods' bridge."""
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True)
class Backend:
    service: Key
    port_name: str
    port: int


def doors(services: Iterable[Service]) -> dict[Door, Backend]:
    """All listeners that these Services want. Pure."""
    return {door: backend for service in services for door, backend in _doors_of(service)}


def _doors_of(service: Service) -> Iterator[tuple[Door, Backend]]:
    if service.spec.type == "ExternalName":
        return
    for port in service.spec.ports:
        if port.protocol not in ("TCP", "UDP"):
            continue
        backend = Backend(service.metadata.key, port.name, port.port)
        if service.spec.cluster_ip not in ("", "None"):
            yield Door(service.spec.cluster_ip, port.port, protocol=port.protocol), backend
        if port.node_port:
            yield Door("127.0.0.1", port.node_port, True, port.protocol), backend


def endpoints(
    slices: Iterable[EndpointSlice], port_name: str, *, shared: bool = False
) -> tuple[tuple[str, int], ...]:
    """Where connections may go: ready ones, or, if none is, those that still serve. Pure.

    Never to the machine itself, unless Pods share its network (`shared`).
    """
    ready: dict[tuple[str, int], None] = {}
    serving: dict[tuple[str, int], None] = {}
    for one in slices:
        ports = [port.port for port in one.ports if port.name == port_name and port.port]
        for endpoint in own_endpoints(one):
            for address in endpoint.addresses:
                if not may_connect(address, shared=shared):
                    continue
                for number in ports:
                    if endpoint.ready:
                        ready[address, number] = None
                    elif endpoint.conditions.serving:
                        serving[address, number] = None
    return tuple(ready or serving)


def own_endpoints(one: EndpointSlice) -> Iterator[Endpoint]:
    """The endpoints of a slice but those that name a Pod of another namespace. Host names (FQDN) are
    nobody's endpoints, as for kube-proxy."""
    if one.address_type not in ("IPv4", "IPv6"):
        return
    for endpoint in one.endpoints:
        target = endpoint.target_ref
        if target is None or target.namespace in ("", one.metadata.namespace):
            yield endpoint


def may_connect(address: str, *, shared: bool) -> bool:
    """Whether an address in a slice may be dialled from this process."""
    parsed = parse_address(address)
    if parsed is None or parsed.is_multicast:
        return False
    return not special_address(address) or (shared and parsed.is_loopback)


def service_of(one: EndpointSlice) -> list[str]:
    """Index of EndpointSlices by the Service that they belong to."""
    return [f"{one.metadata.namespace}/{one.metadata.labels.get(_SERVICE_LABEL, '')}"]


def port_called(service: Service, port: str | int) -> ServicePort | None:
    """A Service's port by name or number."""
    for known in service.spec.ports:
        if port in (known.port, known.name, str(known.port)):
            return known
    return None


class ServiceProxy:
    def __init__(
        self,
        sockets: PodSockets,
        bridge: str,
        slices: Callable[[Key], Iterable[EndpointSlice]],
        api_server: tuple[str, int] | None,
        refused: Callable[[Key, str], None],
        *,
        shared: bool = False,
    ) -> None:
        """`shared`: Pods are on the machine's own network, and have loopback addresses."""
        self._shared = shared
        self._sockets = sockets
        self._bridge = bridge
        self._slices = slices
        self._api_server = api_server
        self._servers: dict[Door, tuple[Backend, asyncio.Server | DatagramDoor]] = {}
        self._refused: set[Door] = set()
        self._tell_refused = refused
        self._turn = count()
        self._clients = Conversations()
        self._lock = asyncio.Lock()

    async def follow(self, services: Iterable[Service]) -> None:
        """Open and close doors until they are those of these Services."""
        async with self._lock:
            await self._follow(doors(services))

    async def _follow(self, wanted: Mapping[Door, Backend]) -> None:
        for door in [known for known in self._servers if known not in wanted]:
            _, server = self._servers.pop(door)
            server.close()
        self._refused &= set(wanted)
        for door, backend in wanted.items():
            known = self._servers.get(door)
            if known is not None and known[0] == backend:
                continue
            if known is not None:
                known[1].close()
            await self._open(door, backend)

    async def _open(self, door: Door, backend: Backend) -> None:
        try:
            server = await self._serve_door(door, backend)
        except OSError as error:
            self._servers.pop(door, None)
            if door not in self._refused:
                self._refused.add(door)
                self._tell_refused(
                    backend.service,
                    f"{door.host}:{door.port}/{door.protocol} cannot be opened ({error.strerror}):"
                    " stop the program that has it, or choose another port",
                )
            return
        self._servers[door] = (backend, server)

    async def _serve_door(self, door: Door, backend: Backend) -> asyncio.Server | DatagramDoor:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._clients.hold(self._serve(backend, (reader, writer)), writer)

        if door.protocol == "UDP":
            return await DatagramDoor.open(
                await self._datagrams(door), lambda: self._datagrams_to(backend)
            )
        return await asyncio.start_server(serve, sock=await self._listener(door))

    async def _datagrams(self, door: Door) -> socket.socket:
        if not door.outside:
            return await self._sockets.datagrams(door.host, door.port)
        return machine_datagrams(door.host, door.port)

    async def _datagrams_to(self, backend: Backend) -> socket.socket:
        targets = self._targets(backend)
        if not targets:
            raise ConnectionRefusedError(f"Service {backend.service} has no ready endpoints")
        return await self._sockets.datagrams_to(*targets[next(self._turn) % len(targets)])

    async def _listener(self, door: Door) -> socket.socket:
        if not door.outside:
            return await self._sockets.listener(door.host, door.port, self._bridge)
        return machine_listener(*_at(door))

    async def _serve(self, backend: Backend, client: Streams) -> None:
        try:
            target = await self.dial(backend)
        except OSError:
            client[1].transport.abort()
            await hang_up(client[1])
            return
        await relay(client, target)

    async def dial(self, backend: Backend) -> Streams:
        """A connection to an endpoint of the Service: in turn, the next one when one refuses."""
        targets = self._targets(backend)
        if not targets:
            raise ConnectionRefusedError(f"Service {backend.service} has no ready endpoints")
        first = next(self._turn)
        failure: OSError = ConnectionRefusedError("no endpoint answered")
        for step in range(len(targets)):
            target = targets[(first + step) % len(targets)]
            try:
                async with asyncio.timeout(_DIAL_TIMEOUT):
                    return await self._connect(*target)
            except OSError as error:  # a timeout is one too
                failure = error
        raise failure

    async def _connect(self, host: str, port: int) -> Streams:
        if (host, port) == self._api_server:
            return await asyncio.open_connection(host, port)  # on the machine, not among Pods
        return await self._sockets.connect(host, port)

    def _targets(self, backend: Backend) -> tuple[tuple[str, int], ...]:
        if backend.service == KUBERNETES and self._api_server is not None:
            return (self._api_server,)
        slices = self._slices(backend.service)
        return endpoints(slices, backend.port_name, shared=self._shared)

    def close(self) -> None:
        for _, server in self._servers.values():
            server.close()
        self._servers.clear()
        self._clients.close()


def _at(door: Door) -> tuple[str, int]:
    return door.host, door.port
