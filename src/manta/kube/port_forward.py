"""A connection to a port of a Pod, over a WebSocket (v4.channel.k8s.io).

Channel 0 carries the data, channel 1 an error text. The first message of each is the port's number.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from manta.api.meta import Key
from manta.api.resources import PODS
from manta.kube import requests
from manta.kube.errors import MantaError
from manta.kube.transport import Request, UpgradingTransport, WebSocket

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1


class PortForwardError(MantaError):
    """The node did not reach the port."""


class PortConnection:
    """A connection to a port, open for as long as its context is."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def write(self, data: bytes) -> None:
        await self._socket.send(bytes([DATA]) + data)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The bytes of the Pod until it closes. Raises PortForwardError, Unreachable."""
        begun: set[int] = set()
        async for message in self._socket.messages():
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel not in begun:
                begun.add(channel)
                data = data[2:]
            if channel == ERROR and data:
                raise PortForwardError(data.decode("utf-8", "replace").strip())
            if channel == DATA and data:
                yield data


@asynccontextmanager
async def port_forward(
    transport: UpgradingTransport, key: Key, port: int
) -> AsyncIterator[PortConnection]:
    """A new connection to this port of the Pod. Raises the ApiError of a refusal, and Unreachable."""
    path = requests.object_path(PODS, key, "portforward")
    request = Request("GET", path, (("ports", str(port)),))
    async with transport.websocket(request, (PROTOCOL,)) as socket:
        yield PortConnection(socket)
