"""The host ports of one Pod: connections to a port of this machine are forwarded to the Pod.

They listen on the machine's loopback address unless the Pod names another one (`hostIP`), so that a laptop
does not expose its Pods to the network by accident.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from manta.localplane.node.net.datagrams import DatagramProxy
from manta.localplane.node.net.relay import ConnectionSet, Streams, close_connection, relay
from manta.localplane.node.net.sockets import (
    PodSockets,
    machine_datagrams,
    machine_listener,
    serve_on,
)
from manta.localplane.node.spec.pod_spec import ContainerPort, NodePod

LOOPBACK = "127.0.0.1"


class PortTaken(OSError):  # noqa: N818 - a state of the machine
    """Another program has the port."""


def host_ports(pod: NodePod) -> Iterator[ContainerPort]:
    """The host ports of a Pod with its own network."""
    if not pod.spec.host_network:
        for container in pod.containers():
            yield from (port for port in container.ports if port.host_port)


class HostPorts:
    def __init__(self, sockets: PodSockets) -> None:
        self._sockets = sockets
        self._doors: list[asyncio.Server | DatagramProxy] = []
        self._clients = ConnectionSet()

    async def open(self, pod: NodePod, address: str) -> None:
        """Open all host ports, or none and raise PortTaken."""
        try:
            for port in host_ports(pod):
                self._doors.append(await self._open(port, address))
        except OSError:
            self.close()
            raise

    async def _open(self, port: ContainerPort, address: str) -> asyncio.Server | DatagramProxy:
        host = port.host_ip or LOOPBACK
        target = (address, port.container_port)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._clients.hold(self._serve((reader, writer), target), writer)

        try:
            if port.protocol == "UDP":
                sockets = self._sockets
                listener = machine_datagrams(host, port.host_port)
                return await DatagramProxy.open(listener, lambda: sockets.datagrams_to(*target))
            return await serve_on(machine_listener(host, port.host_port), serve)
        except OSError as error:
            raise PortTaken(
                error.errno,
                f"hostPort {port.host_port}/{port.protocol} on {host} cannot be opened"
                f" ({error.strerror}): stop the program that has it, or choose another hostPort",
            ) from error

    async def _serve(self, client: Streams, target: tuple[str, int]) -> None:
        try:
            upstream = await self._sockets.connect(*target)
        except OSError:
            client[1].transport.abort()
            await close_connection(client[1])
            return
        await relay(client, upstream)

    def close(self) -> None:
        for door in self._doors:
            door.close()
        self._doors.clear()
        self._clients.close()
