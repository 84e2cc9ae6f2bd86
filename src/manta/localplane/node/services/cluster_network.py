"""The cluster network of one plane: DNS, Service proxies, and connections to Services from this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack

from manta.api.core import Service
from manta.api.discovery import EndpointSlice
from manta.api.meta import Key
from manta.api.resources import ENDPOINT_SLICES, SERVICES
from manta.kube.client import Client
from manta.localplane.node.machine import Machine
from manta.localplane.node.net.relay import Streams
from manta.localplane.node.services.dns_server import DnsServer, machine_name_servers
from manta.localplane.node.services.dns_zone import Zone
from manta.localplane.node.services.proxy import Backend, ServiceProxy, find_port, service_of
from manta.localplane.node.services.stand_ins import StandIns
from manta.runtime.informer import Informer
from manta.runtime.recorder import ObjectReference, Recorder

log = logging.getLogger(__name__)


class ClusterNetwork:
    def __init__(self, client: Client, machine: Machine, recorder: Recorder) -> None:
        self._recorder = recorder
        self.ready = asyncio.Event()
        self._machine = machine
        self._services = Informer(client, SERVICES, Service)
        self._slices = Informer(
            client, ENDPOINT_SLICES, EndpointSlice, indexes={"service": service_of}
        )
        bridge = machine.network.bridge if machine.network else ""
        self.proxy = ServiceProxy(
            machine.sockets,
            bridge,
            self._slices_of,
            machine.options.api_server,
            self._port_refused,
            shared=machine.shared is not None,
            wake=machine.options.wake,
        )
        self._changed = asyncio.Event()
        self._names = self._zone()
        self._stand_ins = StandIns(machine.ranges.services, self._services.all)
        stand_in = self._stand_in if machine.options.wake is not None else None
        self._dns = DnsServer(self._names, machine_name_servers(), stand_in)

    def _port_refused(self, service: Key, why: str) -> None:
        """Record an Event for the Service."""
        log.warning("Service %s: %s", service, why)
        known = self._services.get(service)
        if known is not None:
            regarding = ObjectReference.to(SERVICES, known.metadata)
            self._recorder.event(
                regarding, "Warning", "PortTaken", "Opening", why, controller="kubelet"
            )

    def services(self) -> Iterable[Service]:
        return self._services.all()

    def watch_services(self, changed: Callable[[], None]) -> None:
        """Call `changed` when a Service is added, changed or deleted."""
        self._services.add_handler(lambda *_: changed())

    def _slices_of(self, service: Key) -> Iterable[EndpointSlice]:
        return self._slices.by("service", str(service))

    def pod_behind(self, namespace: str, name: str) -> str | None:
        """The address of a Pod of a Service; "" if it has none yet, None if there is no such Service."""
        service = self._services.get(Key(namespace, name))
        if service is None:
            return None
        return next((address for address, _ in self._names.endpoints(service)), "")

    def _zone(self) -> Zone:
        options = self._machine.options
        pods = (self._machine.network.subnet,) if self._machine.network else ()
        return Zone(
            options.cluster_domain,
            service=lambda namespace, name: self._services.get(Key(namespace, name)),
            slices=lambda namespace, name: self._slices_of(Key(namespace, name)),
            all_slices=self._slices.all,
            all_services=self._services.all,
            networks=(*pods, self._machine.ranges.services),
        )

    async def run(self) -> None:
        """Serve until cancelled."""
        self._services.add_handler(lambda *_: self._changed.set())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._services.run(), name="services")
                group.create_task(self._slices.run(), name="endpoint slices")
                await self._services.synced.wait()
                await self._slices.synced.wait()
                if self._machine.network is not None:
                    await self._start_dns(str(self._machine.network.gateway))
                    group.create_task(self._follow_services(), name="service addresses")
                self.ready.set()
        finally:
            self.proxy.close()
            await self._dns.stop()

    async def _start_dns(self, address: str) -> None:
        sockets = self._machine.sockets
        bridge = self._machine.network.bridge if self._machine.network else ""
        try:
            with ExitStack() as opened:
                datagrams = opened.enter_context(await sockets.datagrams(address, 53))
                listener = opened.enter_context(await sockets.listener(address, 53, bridge))
                await self._dns.start(datagrams, listener)
                opened.pop_all()  # the server closes them
        except OSError as error:
            self._machine.dns_error = (
                f"no DNS for Pods: {address}:53 cannot be used ({error.strerror}). A name server of"
                " this machine listens on all addresses: configure it not to use this one"
                " (dnsmasq: bind-interfaces)"
            )
            log.warning(self._machine.dns_error)

    async def _follow_services(self) -> None:
        while True:
            self._changed.clear()
            await self.proxy.follow(self._stand_ins.listening())
            await self._changed.wait()

    async def _stand_in(self, service: Service) -> str:
        """An address at which connections wake this Service; empty if it does not sleep."""
        wake = self._machine.options.wake
        if wake is None or not await wake.sleeps(service.metadata.key):
            return ""
        address = self._stand_ins.add(service)
        await self.proxy.follow(self._stand_ins.listening())
        return address

    async def dial(self, service: Key, port: str | int) -> Streams:
        """Connect to a Service, also a headless one, by port name or number. Raises OSError."""
        known = self._services.get(service)
        chosen = find_port(known, port) if known else None
        if chosen is None:
            raise ConnectionRefusedError(f"no Service {service} with port {port}")
        return await self.proxy.dial(Backend(service, chosen.name, chosen.port))
