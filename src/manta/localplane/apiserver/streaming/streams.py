"""Streaming requests: logs, exec, attach, port-forward and proxy, tied to the node's connector."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from manta.api.times import parse_time
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.messages import HttpRequest, HttpResponse
from manta.localplane.apiserver.status_errors import Refusal, bad_request
from manta.localplane.apiserver.streaming import (
    spdy_command,
    websocket_command,
)
from manta.localplane.apiserver.streaming.connector import (
    ContainerUnavailable,
    LogOptions,
    NodeConnector,
)
from manta.localplane.apiserver.streaming.pipe import Pipe, switching
from manta.localplane.apiserver.streaming.port_forward import (
    PORTS_LIMIT,
    Forwarder,
    forward_channels,
    read_port,
)
from manta.localplane.apiserver.streaming.proxy import PATH_CHARACTERS, forward, forward_upgrade
from manta.localplane.apiserver.streaming.remote_command import (
    CommandOptions,
    OpenSession,
    converse,
)
from manta.localplane.apiserver.streaming.spdy import SpdySession
from manta.localplane.apiserver.streaming.spdy_command import SpdyWire
from manta.localplane.apiserver.streaming.targets import (
    Address,
    choose_container,
    find_pod,
    pod_address,
    service_address,
)
from manta.localplane.apiserver.streaming.tunnel import tunnelled
from manta.localplane.apiserver.streaming.websocket import (
    WebSocket,
    is_websocket,
    offered_protocols,
)
from manta.localplane.apiserver.streaming.websocket_command import WebSocketWire

PORT_FORWARD = "portforward.k8s.io"
TUNNEL = f"SPDY/3.1+{PORT_FORWARD}"
_INT64 = 2**63 - 1
_LONG_AGO = 10**9
"""Seconds: nothing here has a log that is older."""


class Streams:
    names = frozenset(("log", "exec", "attach", "portforward", "proxy"))

    def __init__(self, core: Core) -> None:
        self._core = core
        self.connector: NodeConnector | None = None
        self._upgrades: Mapping[str, Callable[[Call, Pipe], Awaitable[None]]] = {
            "exec": self._command,
            "attach": self._command,
            "portforward": self._port_forward,
            "proxy": self._proxy_upgrade,
        }

    async def perform(self, call: Call) -> HttpResponse:
        """What needs no upgrade."""
        if call.route.subresource == "log":
            return await self._log(call)
        if call.route.subresource == "proxy":
            return await self._proxy(call)
        raise bad_request("Upgrade request required")

    async def upgrade(self, call: Call, pipe: Pipe) -> None:
        """Raises a Refusal as long as nothing has been answered."""
        act = self._upgrades.get(call.route.subresource)
        if act is None:
            raise bad_request("this resource cannot be upgraded")
        await act(call, pipe)

    def _node(self) -> NodeConnector:
        if self.connector is None:
            message = "no node of this plane can be reached for streaming"
            raise Refusal(503, "ServiceUnavailable", message)
        return self.connector

    # ── logs ─────────────────────────────────────────────────────────────────────────────
    async def _log(self, call: Call) -> HttpResponse:
        request, route = call.request, call.route
        pod = find_pod(self._core, route.namespace, route.name)
        container = choose_container(pod, request.param("container"))
        options = _log_options(request)
        if not (pod.get("spec") or {}).get("nodeName"):
            return HttpResponse(204, b"", content_type="text/plain")
        try:
            lines = await self._node().logs(route.namespace, route.name, container, options)
        except ContainerUnavailable as error:
            raise bad_request(str(error)) from None
        return HttpResponse(200, _limited(lines, options.limit_bytes), content_type="text/plain")

    # ── exec and attach ──────────────────────────────────────────────────────────────────
    async def _command(self, call: Call, pipe: Pipe) -> None:
        options = self._command_options(call)
        opening = self._opening(call, options)
        headers = call.request.headers
        if is_websocket(headers):
            await self._websocket_command(headers, options, opening, pipe)
        else:
            await self._spdy_command(headers, options, opening, pipe)

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
            namespace,
            pod,
            options.container,
            options.command,
            stdin=options.stdin,
            tty=options.tty,
        )

    async def _websocket_command(
        self,
        headers: Mapping[str, str],
        options: CommandOptions,
        opening: OpenSession,
        pipe: Pipe,
    ) -> None:
        protocol = _common(offered_protocols(headers), websocket_command.PROTOCOLS)
        socket = WebSocket.accept(pipe, headers, protocol)
        wire = WebSocketWire(socket, protocol, pipe.hold)
        await _beside(wire.pump(), converse(wire, options, opening))

    async def _spdy_command(
        self,
        headers: Mapping[str, str],
        options: CommandOptions,
        opening: OpenSession,
        pipe: Pipe,
    ) -> None:
        protocol = _common(_stream_protocols(headers), spdy_command.PROTOCOLS)
        pipe.write(_spdy_answer(headers, protocol))
        wire = SpdyWire(options, protocol)
        session = SpdySession(pipe, wire.add)

        async def talk() -> None:
            await wire.ready()
            await converse(wire, options, opening)
            await session.goodbye()

        await _beside(session.run(), talk())

    # ── port-forward ─────────────────────────────────────────────────────────────────────
    async def _port_forward(self, call: Call, pipe: Pipe) -> None:
        headers, route = call.request.headers, call.route
        pod = find_pod(self._core, route.namespace, route.name)
        if not (pod.get("spec") or {}).get("nodeName"):
            raise bad_request(f"pod {route.name} does not have a host assigned")
        node = self._node()

        async def dial(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await node.dial(route.namespace, route.name, port)

        if not is_websocket(headers):
            protocol = _common(_stream_protocols(headers), (PORT_FORWARD,))
            pipe.write(_spdy_answer(headers, protocol))
            await _forward_spdy(pipe, Forwarder(dial))
            return
        offered = offered_protocols(headers)
        if TUNNEL in offered:
            socket = WebSocket.accept(pipe, headers, TUNNEL)
            async with tunnelled(socket, pipe) as inner:
                await _forward_spdy(inner, Forwarder(dial))
            return
        ports = _ports(call.request)
        protocol = _common(offered, ("v4.channel.k8s.io",)) if offered else ""
        socket = WebSocket.accept(pipe, headers, protocol)
        await forward_channels(socket, ports, dial, pipe.hold)

    # ── proxy ────────────────────────────────────────────────────────────────────────────
    async def _proxy(self, call: Call) -> HttpResponse:
        path = call.request.path
        if not call.route.rest and not path.endswith("/"):
            location = f"{quote(path, safe=PATH_CHARACTERS)}/"
            return HttpResponse(301, b"", (("Location", location),), "text/plain")
        rest = call.route.rest + ("/" if call.route.rest and path.endswith("/") else "")
        base = path[: len(path) - len(rest)]
        try:
            return await forward(call.request, rest, base, self._dialer(call))
        except ContainerUnavailable as error:
            raise Refusal(503, "ServiceUnavailable", str(error)) from None

    async def _proxy_upgrade(self, call: Call, pipe: Pipe) -> None:
        try:
            await forward_upgrade(call.request, call.route.rest, self._dialer(call), pipe)
        except ContainerUnavailable as error:
            raise Refusal(503, "ServiceUnavailable", str(error)) from None

    def _dialer(
        self, call: Call
    ) -> Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
        where = self._address(call)
        node = self._node()
        return lambda: node.dial(where.namespace, where.pod, where.port)

    def _address(self, call: Call) -> Address:
        find = {"pods": pod_address, "services": service_address}.get(call.served.plural)
        if find is None:
            raise bad_request(f"{call.served.plural} cannot be proxied here")
        return find(self._core, call.route.namespace, call.route.name)


async def _beside(pump: Awaitable[Any], talk: Awaitable[Any]) -> None:
    """Talk while pumping. When the client leaves first, the talk is given up."""
    pumping = asyncio.ensure_future(pump)
    talking = asyncio.ensure_future(talk)
    try:
        await asyncio.wait({pumping, talking}, return_when=asyncio.FIRST_COMPLETED)
        if not talking.done():
            # What the client has sent before it left must still reach the process.
            await asyncio.wait({talking}, timeout=1.0)
    finally:
        for task in (talking, pumping):
            task.cancel()
        await asyncio.gather(pumping, talking, return_exceptions=True)


async def _forward_spdy(pipe: Pipe, forwarder: Forwarder) -> None:
    session = SpdySession(pipe, forwarder.add)
    try:
        await session.run()
    finally:
        await forwarder.close()


def _common(offered: Sequence[str], known: Sequence[str]) -> str:
    for name in known:
        if name in offered:
            return name
    if not offered:
        return ""
    listed = ", ".join(offered)
    raise Refusal(403, "Forbidden", f"unable to upgrade: unable to negotiate protocol: {listed}")


def _stream_protocols(headers: Mapping[str, str]) -> list[str]:
    return [
        name.strip()
        for name in headers.get("x-stream-protocol-version", "").split(",")
        if name.strip()
    ]


def _spdy_answer(headers: Mapping[str, str], protocol: str) -> bytes:
    if "spdy/3.1" not in headers.get("upgrade", "").lower():
        raise bad_request("unable to upgrade: missing upgrade headers in request")
    answer = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
    if protocol:
        answer.append(("X-Stream-Protocol-Version", protocol))
    return switching(answer)


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


def _log_options(request: HttpRequest) -> LogOptions:
    since_time = request.param("sinceTime")
    since_seconds = _count(request, "sinceSeconds")
    if since_time:
        if since_seconds is not None:
            raise bad_request("at most one of sinceTime and sinceSeconds may be specified")
        try:
            parse_time(since_time)
        except ValueError as error:
            why = f"must be a time as in RFC 3339: {error}"
            raise bad_request(f'sinceTime: Invalid value: "{since_time[:64]}": {why}') from None
    return LogOptions(
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        timestamps=request.flag("timestamps"),
        tail_lines=_count(request, "tailLines"),
        since_seconds=None if since_seconds is None else min(since_seconds, _LONG_AGO),
        since_time=since_time,
        limit_bytes=_count(request, "limitBytes"),
    )


def _count(request: HttpRequest, name: str) -> int | None:
    text = request.param(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        why = "must be a non-negative number"
        raise bad_request(f'{name}: Invalid value: "{text[:64]}": {why}')
    if len(text) > 19 or int(text) > _INT64:
        raise bad_request(f'{name}: Invalid value: "{text[:64]}": value out of range')
    return int(text)


async def _limited(lines: AsyncIterator[bytes], limit: int | None) -> AsyncIterator[bytes]:
    left = limit
    closing = getattr(lines, "aclose", None)
    try:
        async for chunk in lines:
            if left is None:
                yield chunk
                continue
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return
    finally:
        if closing is not None:
            with contextlib.suppress(RuntimeError):
                await closing()
