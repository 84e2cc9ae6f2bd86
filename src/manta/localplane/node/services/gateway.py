"""The HTTP proxy for Ingresses and Gateways, in this process.

One port on 127.0.0.1 (kept in `ingress.json`) serves all Ingresses by host and path, and each Gateway under
the host name GATEWAY.NAMESPACE.gateway.localhost. Inside the cluster each Gateway has its own address with
the ports of its listeners.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress

from manta.api.gateway import Gateway, HTTPRoute
from manta.api.meta import Key
from manta.api.networking import Ingress
from manta.api.resources import GATEWAYS, HTTP_ROUTES, INGRESSES
from manta.kube.client import Client
from manta.localplane.node.host import wire
from manta.localplane.node.machine import Machine
from manta.localplane.node.net.relay import ConnectionSet, Streams, close_connection, relay
from manta.localplane.node.net.sockets import machine_listener, serve_on
from manta.localplane.node.services.cluster_network import ClusterNetwork
from manta.localplane.node.services.gateway_status import StatusWriter, install_types
from manta.localplane.node.services.http_head import Head, MalformedHead, parse_head, plain_response
from manta.localplane.node.services.routing import (
    Route,
    WeightedRoundRobin,
    choose,
    routes_of_gateway,
    routes_of_ingresses,
)
from manta.runtime.clock import Clock
from manta.runtime.informer import Informer

log = logging.getLogger(__name__)

_OUTSIDE_SUFFIX = ".gateway.localhost"
_HEAD_TIMEOUT_SECONDS = 30.0

RouteTable = Callable[[Head], tuple[Route, ...]]


class HttpGateway:
    def __init__(
        self, client: Client, clock: Clock, machine: Machine, network: ClusterNetwork
    ) -> None:
        self._client = client
        self._clock = clock
        self._machine = machine
        self._network = network
        self._ingresses = Informer(client, INGRESSES, Ingress)
        self._gateways = Informer(client, GATEWAYS, Gateway)
        self._routes = Informer(client, HTTP_ROUTES, HTTPRoute)
        self._changed = asyncio.Event()
        self._clients = ConnectionSet()
        self._round_robin = WeightedRoundRobin()
        self._servers: dict[tuple[str, int], asyncio.Server] = {}
        self._addresses: dict[Key, str] = {}
        self.port = 0
        """The port on 127.0.0.1; 0 while it is not open."""

    async def run(self) -> None:
        await install_types(self._client)
        writer = StatusWriter(self._client, self._clock)
        informers: tuple[Informer[Ingress] | Informer[Gateway] | Informer[HTTPRoute], ...]
        informers = (self._ingresses, self._gateways, self._routes)
        try:
            async with asyncio.TaskGroup() as group:
                for informer in informers:
                    informer.add_handler(lambda *_: self._changed.set())
                    group.create_task(informer.run())
                for informer in informers:
                    await informer.synced.wait()
                self._network.watch_services(self._changed.set)
                await self._open_outside()
                while True:
                    self._changed.clear()
                    await self._follow_gateways()
                    gateways = [(one, self._address(one)) for one in self._gateways.all()]
                    await writer.write(gateways, self._routes.all(), self._network.services())
                    await self._changed.wait()
        finally:
            for server in self._servers.values():
                server.close()
            self._clients.close()

    # ── listeners ──────────────────────────────────────────────────────────────────────
    async def _open_outside(self) -> None:
        """Open the port on 127.0.0.1, the same as last time if it is free."""
        path = self._machine.directory / "ingress.json"
        last = int((wire.read_record(path) or {}).get("port", 0))
        wanted = self._machine.options.ingress_port
        for port in dict.fromkeys((wanted or last, 0)):
            try:
                server = await serve_on(
                    machine_listener("127.0.0.1", port),
                    lambda *streams: self._held(streams, self._for_outside),
                )
            except OSError as error:
                log.warning("HTTP from outside: port %d is taken: %s", port, error)
                continue
            self._servers["127.0.0.1", 0] = server
            self.port = int(server.sockets[0].getsockname()[1])
            wire.write_record(path, {"port": self.port})
            return

    async def _follow_gateways(self) -> None:
        """Open the listeners of new Gateways, close those of deleted ones."""
        if self._machine.network is None:
            return
        wanted = {
            (self._address(gateway), listener.port): gateway.metadata.key
            for gateway in self._gateways.all()
            for listener in gateway.spec.listeners
            if listener.protocol == "HTTP"
        }
        for address in [known for known in self._servers if known not in wanted and known[1]]:
            self._servers.pop(address).close()
        for (host, port), gateway in wanted.items():
            if (host, port) not in self._servers:
                with suppress(OSError):
                    self._servers[host, port] = await self._open_inside(host, port, gateway)

    async def _open_inside(self, host: str, port: int, gateway: Key) -> asyncio.Server:
        bridge = self._machine.network.bridge if self._machine.network else ""
        listener = await self._machine.sockets.listener(host, port, bridge)
        return await serve_on(
            listener, lambda *streams: self._held(streams, lambda _: self._of_gateway(gateway))
        )

    def _address(self, gateway: Gateway) -> str:
        """The Gateway's address, from the end of the Service range, which Services rarely use."""
        key = gateway.metadata.key
        known = self._addresses.get(key)
        if known is None:
            taken = {*self._addresses.values(), *self._service_addresses()}
            known = next(one for one in self._free_addresses() if one not in taken)
            self._addresses[key] = known
        return known

    def _free_addresses(self) -> Iterator[str]:
        network = self._machine.ranges.services
        return (str(network[-2 - step]) for step in range(network.num_addresses - 2))

    def _service_addresses(self) -> Iterator[str]:
        return (service.spec.cluster_ip for service in self._network.services())

    # ── requests ───────────────────────────────────────────────────────────────────────
    def _for_outside(self, head: Head) -> tuple[Route, ...]:
        if head.host.endswith(_OUTSIDE_SUFFIX):
            name, _, namespace = head.host.removesuffix(_OUTSIDE_SUFFIX).partition(".")
            return self._of_gateway(Key(namespace or "default", name))
        return routes_of_ingresses(self._ingresses.all())

    def _of_gateway(self, key: Key) -> tuple[Route, ...]:
        gateway = self._gateways.get(key)
        return routes_of_gateway(gateway, self._routes.all()) if gateway else ()

    async def _held(self, client: Streams, table: RouteTable) -> None:
        await self._clients.hold(self._serve(client, table), client[1])

    async def _serve(self, client: Streams, table: RouteTable) -> None:
        try:
            async with asyncio.timeout(_HEAD_TIMEOUT_SECONDS):
                head = parse_head(await client[0].readuntil(b"\r\n\r\n"))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, MalformedHead, OSError):
            await close_connection(client[1])
            return
        response = await self._forward(client, head, table(head))
        if response:
            client[1].write(response)
            with suppress(OSError):
                await client[1].drain()
            await close_connection(client[1])

    async def _forward(
        self, client: Streams, head: Head, routes: tuple[Route, ...]
    ) -> bytes | None:
        """None if a Service has responded, else our own response."""
        route = choose(routes, head)
        if route is None:
            return plain_response(404, "Not Found", f"no route for {head.host}{head.path}")
        destination = self._round_robin.next(route.destinations)
        if destination is None:
            return plain_response(500, "Internal Server Error", "the route has no backend")
        try:
            upstream = await self._network.dial(destination.service, destination.port)
        except OSError as error:
            return plain_response(503, "Service Unavailable", f"{destination.service}: {error}")
        peer = client[1].get_extra_info("peername")
        upstream[1].write(route.rewrite(head).forwarded(peer[0] if peer else "").encode())
        await relay(client, upstream)
        return None
