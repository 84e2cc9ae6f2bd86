"""The streaming subresources exec, attach, portforward and proxy, on top of a node agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from manta.api.meta import Key
from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.httpserver.upgrade import UpgradedConnection, switching_protocols
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.status_errors import StatusError, bad_request
from manta.localplane.apiserver.streaming import spdy_command, websocket_command
from manta.localplane.apiserver.streaming.connector import ContainerUnavailable, NodeConnector
from manta.localplane.apiserver.streaming.logs import read_logs
from manta.localplane.apiserver.streaming.port_forward import (
    PORTS_LIMIT,
    Forwarder,
    forward_channels,
    read_port,
)
from manta.localplane.apiserver.streaming.proxy import SAFE_PATH, forward, forward_upgrade
from manta.localplane.apiserver.streaming.remote_command import (
    CommandOptions,
    OpenSession,
    run_command,
)
from manta.localplane.apiserver.streaming.spdy import SpdySession
from manta.localplane.apiserver.streaming.spdy_command import SpdyCommandStreams
from manta.localplane.apiserver.streaming.targets import (
    Address,
    NoEndpoints,
    choose_container,
    find_pod,
    pod_address,
    service_address,
    service_and_port,
)
from manta.localplane.apiserver.streaming.tunnel import spdy_in_websocket
from manta.localplane.apiserver.streaming.websocket import (
    WebSocket,
    is_websocket,
    offered_protocols,
)
from manta.localplane.apiserver.streaming.websocket_command import WebSocketCommandStreams
from manta.localplane.waking import Wake, wake_for_client

PORT_FORWARD = "portforward.k8s.io"
TUNNEL = f"SPDY/3.1+{PORT_FORWARD}"
_SPDY_PROTOCOLS, _WEBSOCKET_PROTOCOLS = "x-stream-protocol-version", "sec-websocket-protocol"


class Streams:
    names = frozenset(("log", "exec", "attach", "portforward", "proxy"))

    def __init__(self, core: Core) -> None:
        self._core = core
        self.connector: NodeConnector | None = None
        self.wake: Wake | None = None
        self._upgrades: Mapping[str, Callable[[Call, UpgradedConnection], Awaitable[None]]] = {
            "exec": self._command,
            "attach": self._command,
            "portforward": self._port_forward,
            "proxy": self._proxy_upgrade,
        }

    async def perform(self, call: Call) -> HttpResponse:
        """Answer a request without an upgrade. Raises StatusError."""
        if call.route.subresource == "log":
            return await read_logs(self._core, self._node, call)
        if call.route.subresource == "proxy":
            return await self._proxy(call)
        raise bad_request("Upgrade request required")

    async def upgrade(self, call: Call, connection: UpgradedConnection) -> None:
        """Serve an upgraded connection. Raises StatusError before anything is sent."""
        act = self._upgrades.get(call.route.subresource)
        if act is None:
            raise bad_request("this resource cannot be upgraded")
        await act(call, connection)

    def _node(self) -> NodeConnector:
        if self.connector is None:
            message = "no node of this plane can be reached for streaming"
            raise StatusError(503, "ServiceUnavailable", message)
        return self.connector

    # ── exec and attach ──────────────────────────────────────────────────────────────────
    async def _command(self, call: Call, connection: UpgradedConnection) -> None:
        options = self._command_options(call)
        opening = self._opening(call, options)
        headers = call.request.headers
        if is_websocket(headers):
            await self._websocket_command(headers, options, opening, connection)
        else:
            await self._spdy_command(headers, options, opening, connection)

    def _command_options(self, call: Call) -> CommandOptions:
        request, route = call.request, call.route
        pod = find_pod(self._core, route.namespace, route.name)
        if not (pod.get("spec") or {}).get("nodeName"):
            raise bad_request(f"pod {route.name} does not have a host assigned")
        options = CommandOptions(
            choose_container(pod, request.param("container")),
            tuple(request.params("command")),
            request.flag("stdin"),
            request.flag("stdout"),
            request.flag("stderr"),
            request.flag("tty"),
        )
        if not (options.stdin or options.stdout or options.stderr):
            raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
        if route.subresource == "exec" and not options.command:
            raise bad_request("you must specify at least one command for the container")
        return options

    def _opening(self, call: Call, options: CommandOptions) -> OpenSession:
        namespace, pod = call.route.namespace, call.route.name
        node = self._node()
        if call.route.subresource == "attach":
            return lambda: node.attach(
                namespace, pod, options.container, stdin=options.stdin, tty=options.tty
            )
        return lambda: node.exec(
            namespace, pod, options.container, options.command, stdin=options.stdin, tty=options.tty
        )

    async def _websocket_command(
        self,
        headers: Mapping[str, str],
        options: CommandOptions,
        opening: OpenSession,
        connection: UpgradedConnection,
    ) -> None:
        protocol = _negotiate(
            offered_protocols(headers, _WEBSOCKET_PROTOCOLS), websocket_command.PROTOCOLS
        )
        socket = WebSocket.accept(connection, headers, protocol)
        streams = WebSocketCommandStreams(socket, protocol, connection.reservation)
        await _run_beside(streams.pump(), run_command(streams, options, opening))

    async def _spdy_command(
        self,
        headers: Mapping[str, str],
        options: CommandOptions,
        opening: OpenSession,
        connection: UpgradedConnection,
    ) -> None:
        protocol = _negotiate(offered_protocols(headers, _SPDY_PROTOCOLS), spdy_command.PROTOCOLS)
        connection.write(_accept_spdy(headers, protocol))
        streams = SpdyCommandStreams(options, protocol)
        session = SpdySession(connection, streams.add)

        async def command() -> None:
            await streams.ready()
            await run_command(streams, options, opening)
            await session.go_away()

        await _run_beside(session.run(), command())

    # ── port-forward ─────────────────────────────────────────────────────────────────────
    async def _port_forward(self, call: Call, connection: UpgradedConnection) -> None:
        headers, route = call.request.headers, call.route
        pod = find_pod(self._core, route.namespace, route.name)
        if not (pod.get("spec") or {}).get("nodeName"):
            raise bad_request(f"pod {route.name} does not have a host assigned")
        node = self._node()

        async def dial(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await node.dial(route.namespace, route.name, port)

        if not is_websocket(headers):
            protocol = _negotiate(offered_protocols(headers, _SPDY_PROTOCOLS), (PORT_FORWARD,))
            connection.write(_accept_spdy(headers, protocol))
            await _forward_spdy(connection, Forwarder(dial))
            return
        offered = offered_protocols(headers, _WEBSOCKET_PROTOCOLS)
        if TUNNEL in offered:
            socket = WebSocket.accept(connection, headers, TUNNEL)
            async with spdy_in_websocket(socket, connection) as inner:
                await _forward_spdy(inner, Forwarder(dial))
            return
        ports = _ports(call.request)
        protocol = _negotiate(offered, ("v4.channel.k8s.io",)) if offered else ""
        socket = WebSocket.accept(connection, headers, protocol)
        await forward_channels(socket, ports, dial, connection.reservation)

    # ── proxy ────────────────────────────────────────────────────────────────────────────
    async def _proxy(self, call: Call) -> HttpResponse:
        path = call.request.path
        if call.resource.plural == "nodes":
            return await self._node_document(call)
        if not call.route.rest and not path.endswith("/"):
            location = f"{quote(path, safe=SAFE_PATH)}/"
            return HttpResponse(301, b"", (("Location", location),), "text/plain")
        rest = call.route.rest + ("/" if call.route.rest and path.endswith("/") else "")
        base = path[: len(path) - len(rest)]
        try:
            return await forward(call.request, rest, base, await self._dialer(call))
        except ContainerUnavailable as error:
            raise StatusError(503, "ServiceUnavailable", str(error)) from None

    async def _node_document(self, call: Call) -> HttpResponse:
        """Only what the node agent knows under fixed paths; there is no HTTP server behind a node."""
        route = call.route
        found = None
        if call.request.method == "GET":
            found = await self._node().node_document(route.name, route.rest)
        if found is None:
            raise StatusError(404, "NotFound", f"node {route.name} has nothing at /{route.rest}")
        return HttpResponse(200, json.dumps(found).encode(), (), "application/json")

    async def _proxy_upgrade(self, call: Call, connection: UpgradedConnection) -> None:
        try:
            dial = await self._dialer(call)
            await forward_upgrade(call.request, call.route.rest, dial, connection)
        except ContainerUnavailable as error:
            raise StatusError(503, "ServiceUnavailable", str(error)) from None

    async def _dialer(
        self, call: Call
    ) -> Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
        where = await self._awake_address(call)
        node = self._node()
        return lambda: node.dial(where.namespace, where.pod, where.port)

    async def _awake_address(self, call: Call) -> Address:
        """The address, after waking a Service that sleeps. Raises StatusError."""
        if call.resource.plural != "services":
            return self._address(call)
        name, port = service_and_port(call.route.name)
        service = Key(call.route.namespace, name)
        try:
            where = self._address(call)
        except NoEndpoints:
            if not await wake_for_client(self.wake, service, port, has_endpoints=False):
                raise
            return self._address(call)
        if await wake_for_client(self.wake, service, port, has_endpoints=True):
            return self._address(call)
        return where

    def _address(self, call: Call) -> Address:
        find = {"pods": pod_address, "services": service_address}.get(call.resource.plural)
        if find is None:
            raise bad_request(f"{call.resource.plural} cannot be proxied here")
        return find(self._core, call.route.namespace, call.route.name)


async def _run_beside(pump: Awaitable[Any], command: Awaitable[Any]) -> None:
    """Run a command while its messages are pumped. Cancel it soon after the client has left."""
    pumping = asyncio.ensure_future(pump)
    running = asyncio.ensure_future(command)
    try:
        await asyncio.wait({pumping, running}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            # Input that the client sent before it left must still reach the process.
            await asyncio.wait({running}, timeout=1.0)
    finally:
        for task in (running, pumping):
            task.cancel()
        await asyncio.gather(pumping, running, return_exceptions=True)


async def _forward_spdy(connection: UpgradedConnection, forwarder: Forwarder) -> None:
    session = SpdySession(connection, forwarder.add)
    try:
        await session.run()
    finally:
        await forwarder.close()


def _negotiate(offered: Sequence[str], known: Sequence[str]) -> str:
    for name in known:
        if name in offered:
            return name
    if not offered:
        return ""
    listed = ", ".join(offered)
    raise StatusError(
        403, "Forbidden", f"unable to upgrade: unable to negotiate protocol: {listed}"
    )


def _accept_spdy(headers: Mapping[str, str], protocol: str) -> bytes:
    if "spdy/3.1" not in headers.get("upgrade", "").lower():
        raise bad_request("unable to upgrade: missing upgrade headers in request")
    answer = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
    if protocol:
        answer.append(("X-Stream-Protocol-Version", protocol))
    return switching_protocols(answer)


def _ports(request: HttpRequest) -> list[int]:
    texts = [part for value in request.params("ports") for part in value.split(",")]
    if not any(texts):
        raise bad_request('query parameter "ports" is required')
    if len(texts) > PORTS_LIMIT:
        raise bad_request(f"ports: {len(texts)} are too many: at most {PORTS_LIMIT}")
    try:
        return [read_port(text) for text in texts]
    except ValueError as error:
        raise bad_request(f"ports: {error}") from None
