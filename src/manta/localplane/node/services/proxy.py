"""A TCP and UDP proxy on every ClusterIP and NodePort, in this process.

The whole Service range is local to the bridge (see pod_network.py), so a Service needs only a listener on
its ClusterIP: no packet filter, and no privileges beyond those for the bridge.
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
from manta.api.well_known import LABEL_SERVICE_NAME
from manta.localplane.node.net.datagrams import DatagramProxy
from manta.localplane.node.net.relay import (
    ConnectionSet,
    Streams,
    close_connection,
    has_left,
    relay,
)
from manta.localplane.node.net.sockets import (
    PodSockets,
    machine_datagrams,
    machine_listener,
    serve_on,
)
from manta.localplane.waking import Wake, wake_for_client

_DIAL_TIMEOUT_SECONDS = 5.0
KUBERNETES = Key("default", "kubernetes")


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address on which a Service is reachable."""

    host: str
    port: int
    outside: bool = False
    """On the machine's loopback address (NodePort), not on the Pods' bridge."""
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True)
class Backend:
    service: Key
    port_name: str
    port: int


def listeners(services: Iterable[Service]) -> dict[ListenAddress, Backend]:
    """All listeners that these Services need. Pure."""
    return {at: backend for service in services for at, backend in _listeners_of(service)}


def _listeners_of(service: Service) -> Iterator[tuple[ListenAddress, Backend]]:
    if service.spec.type == "ExternalName":
        return
    for port in service.spec.ports:
        if port.protocol not in ("TCP", "UDP"):
            continue
        backend = Backend(service.metadata.key, port.name, port.port)
        if service.spec.cluster_ip not in ("", "None"):
            yield ListenAddress(service.spec.cluster_ip, port.port, protocol=port.protocol), backend
        if port.node_port:
            yield ListenAddress("127.0.0.1", port.node_port, True, port.protocol), backend


def endpoints(
    slices: Iterable[EndpointSlice], port_name: str, *, shared: bool = False
) -> tuple[tuple[str, int], ...]:
    """The ready endpoints or, if there are none, those that still serve. Pure.

    Addresses of the machine itself are left out, unless Pods share its network (`shared`).
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
    """The endpoints of a slice, without those that name a Pod of another namespace. Like kube-proxy,
    ignores slices of host names (FQDN)."""
    if one.address_type not in ("IPv4", "IPv6"):
        return
    for endpoint in one.endpoints:
        target = endpoint.target_ref
        if target is None or target.namespace in ("", one.metadata.namespace):
            yield endpoint


def may_connect(address: str, *, shared: bool) -> bool:
    """Whether this process may connect to an address of a slice."""
    parsed = parse_address(address)
    if parsed is None or parsed.is_multicast:
        return False
    return not special_address(address) or (shared and parsed.is_loopback)


def service_of(one: EndpointSlice) -> list[str]:
    """The index key of an EndpointSlice: the Service that it belongs to."""
    return [f"{one.metadata.namespace}/{one.metadata.labels.get(LABEL_SERVICE_NAME, '')}"]


def find_port(service: Service, port: str | int) -> ServicePort | None:
    """A Service's port by name or number, or None."""
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
        on_refused: Callable[[Key, str], None],
        *,
        shared: bool = False,
        wake: Wake | None = None,
    ) -> None:
        """`on_refused` is called with a Service and the reason when a port cannot be opened.
        `shared`: Pods share the machine's network and have loopback addresses."""
        self._shared = shared
        self._wake = wake
        self._sockets = sockets
        self._bridge = bridge
        self._slices = slices
        self._api_server = api_server
        self._servers: dict[ListenAddress, tuple[Backend, asyncio.Server | DatagramProxy]] = {}
        self._refused: set[ListenAddress] = set()
        self._on_refused = on_refused
        self._turn = count()
        self._clients = ConnectionSet()
        self._lock = asyncio.Lock()

    async def follow(self, services: Iterable[Service]) -> None:
        """Open and close listeners so that they are those of these Services."""
        async with self._lock:
            await self._follow(listeners(services))

    async def _follow(self, wanted: Mapping[ListenAddress, Backend]) -> None:
        for address in [known for known in self._servers if known not in wanted]:
            _, server = self._servers.pop(address)
            server.close()
        self._refused &= set(wanted)
        for address, backend in wanted.items():
            known = self._servers.get(address)
            if known is not None and known[0] == backend:
                continue
            if known is not None:
                known[1].close()
            await self._open(address, backend)

    async def _open(self, address: ListenAddress, backend: Backend) -> None:
        try:
            server = await self._start_server(address, backend)
        except OSError as error:
            self._servers.pop(address, None)
            if address not in self._refused:
                self._refused.add(address)
                self._on_refused(
                    backend.service,
                    f"{address.host}:{address.port}/{address.protocol} cannot be opened ({error.strerror}):"
                    " stop the program that has it, or choose another port",
                )
            return
        self._servers[address] = (backend, server)

    async def _start_server(
        self, address: ListenAddress, backend: Backend
    ) -> asyncio.Server | DatagramProxy:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._clients.hold(self._serve(backend, (reader, writer)), writer)

        if address.protocol == "UDP":
            return await DatagramProxy.open(
                await self._datagrams(address), lambda: self._datagrams_to(backend)
            )
        return await serve_on(await self._listener(address), serve)

    async def _datagrams(self, address: ListenAddress) -> socket.socket:
        if not address.outside:
            return await self._sockets.datagrams(address.host, address.port)
        return machine_datagrams(address.host, address.port)

    async def _datagrams_to(self, backend: Backend) -> socket.socket:
        targets = self._targets(backend)
        if not targets:
            raise ConnectionRefusedError(f"Service {backend.service} has no ready endpoints")
        return await self._sockets.datagrams_to(*targets[next(self._turn) % len(targets)])

    async def _listener(self, address: ListenAddress) -> socket.socket:
        if not address.outside:
            return await self._sockets.listener(address.host, address.port, self._bridge)
        return machine_listener(address.host, address.port)

    async def _serve(self, backend: Backend, client: Streams) -> None:
        try:
            await wake_for_client(
                self._wake,
                backend.service,
                backend.port_name or str(backend.port),
                has_endpoints=bool(self._targets(backend)),
                has_left=lambda: has_left(client),
            )
            target = await self.dial(backend)
        except OSError:
            client[1].transport.abort()
            await close_connection(client[1])
            return
        await relay(client, target)

    async def dial(self, backend: Backend) -> Streams:
        """Connect to the next endpoint of the Service that accepts. Raises OSError if none does."""
        targets = self._targets(backend)
        if not targets:
            raise ConnectionRefusedError(f"Service {backend.service} has no ready endpoints")
        first = next(self._turn)
        failure: OSError = ConnectionRefusedError("no endpoint answered")
        for step in range(len(targets)):
            target = targets[(first + step) % len(targets)]
            try:
                async with asyncio.timeout(_DIAL_TIMEOUT_SECONDS):
                    return await self._connect(*target)
            except OSError as error:  # a timeout is one too
                failure = error
        raise failure

    async def _connect(self, host: str, port: int) -> Streams:
        if (host, port) == self._api_server:
            return await asyncio.open_connection(host, port)  # not on the Pod network
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
