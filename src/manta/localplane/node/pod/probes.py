"""Runs probes and lifecycle hooks: exec, HTTP, TCP, gRPC and sleep."""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from manta.localplane.node.net.relay import Streams
from manta.localplane.node.pod.grpc_health import check_health
from manta.localplane.node.sandbox.channel import Gone, Refused
from manta.localplane.node.sandbox.sandbox import Execution
from manta.localplane.node.spec.pod_spec import Container, GrpcAction, Handler, HttpAction

_MAX_OUTPUT_BYTES = 10 * 1024


@dataclass(frozen=True, slots=True)
class ProbeResult:
    success: bool
    message: str = ""


class Target(Protocol):
    """The container that a handler addresses."""

    @property
    def address(self) -> str: ...
    @property
    def container(self) -> Container: ...
    async def connect(
        self, host: str, port: int, context: ssl.SSLContext | None = None
    ) -> Streams: ...
    async def execute(self, command: tuple[str, ...], fds: tuple[int, int, int]) -> Execution: ...


async def run_handler(handler: Handler, target: Target, timeout: float) -> ProbeResult:  # noqa: ASYNC109
    """Run the handler once. Errors and timeouts are failed results, never exceptions."""
    try:
        async with asyncio.timeout(timeout):
            return await _run_handler(handler, target)
    except TimeoutError:
        return ProbeResult(success=False, message=f"command timed out after {timeout:g}s")
    except (OSError, Gone, Refused, ssl.SSLError) as error:
        return ProbeResult(success=False, message=str(error) or type(error).__name__)


async def _run_handler(handler: Handler, target: Target) -> ProbeResult:
    if handler.exec is not None:
        return await _run(handler.exec.command, target)
    if handler.http_get is not None:
        return await _get(handler.http_get, target)
    if handler.tcp_socket is not None:
        port = target.container.port_number(handler.tcp_socket.port)
        return await _connect(target, handler.tcp_socket.host or target.address, port)
    if handler.grpc is not None:
        return await _check_grpc(handler.grpc, target)
    if handler.sleep is not None:
        await asyncio.sleep(handler.sleep.seconds)
    return ProbeResult(success=True)


async def _run(command: tuple[str, ...], target: Target) -> ProbeResult:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        run = await target.execute(command, (null, writer, writer))
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
        os.close(null)
    try:
        output, code = await asyncio.gather(_read_some(reader), run.exit_code)
    except asyncio.CancelledError:
        await asyncio.shield(run.kill())
        raise
    return ProbeResult(success=code == 0, message=output.decode(errors="replace").strip())


async def _read_some(fd: int) -> bytes:
    """Read all output; return its first part."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    pipe = os.fdopen(fd, "rb", 0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    kept = b""
    try:
        while data := await reader.read(65536):
            kept = (kept + data)[:_MAX_OUTPUT_BYTES]
    finally:
        transport.close()
    return kept


async def _get(action: HttpAction, target: Target) -> ProbeResult:
    port = target.container.port_number(action.port)
    if port is None:
        return ProbeResult(success=False, message=f"couldn't find port: {action.port}")
    context = None
    if action.scheme.upper() == "HTTPS":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # a probe checks health, not identity
    host = action.host or target.address
    streams = await target.connect(host, port, context)
    status = await fetch_status(streams, _request(action, host, port))
    if 200 <= status < 400:
        return ProbeResult(success=True)
    return ProbeResult(success=False, message=f"HTTP probe failed with statuscode: {status}")


def _request(action: HttpAction, host: str, port: int) -> bytes:
    headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/manta", "Accept": "*/*"}
    headers |= {header.name: header.value for header in action.http_headers}
    split = urlsplit(action.path or "/")
    path = (split.path or "/") + (f"?{split.query}" if split.query else "")
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode()


async def fetch_status(streams: Streams, request: bytes) -> int:
    """The status code of one HTTP exchange; the body is not read. Raises OSError."""
    reader, writer = streams
    try:
        writer.write(request)
        await writer.drain()
        words = (await reader.readline()).split(b" ", 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            raise OSError("malformed HTTP response")
        return int(words[1])
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _check_grpc(action: GrpcAction, target: Target) -> ProbeResult:
    streams = await target.connect(target.address, action.port)
    status = await check_health(streams, f"{target.address}:{action.port}", action.service)
    if status == "SERVING":
        return ProbeResult(success=True)
    return ProbeResult(success=False, message=f'service unhealthy (responded with "{status}")')


async def _connect(target: Target, host: str, port: int | None) -> ProbeResult:
    if port is None:
        return ProbeResult(success=False, message="couldn't find port")
    _, writer = await target.connect(host, port)
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()
    return ProbeResult(success=True)
