"""The interface below the client, and its implementation over HTTP.

The interface (Request, Response, StreamResponse, Transport) imports nothing heavy, so that an in-process
server can implement it. HttpTransport speaks HTTP/1.1 itself (`http1.py`); proxies and WebSockets go through
aiohttp (`aiohttp_transport.py`), which is imported when first needed.

Every failure is raised as `errors.Unreachable`, whose `sent` is False only if the server cannot have received
the request.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import urlencode, urlsplit

import msgspec

from manta.kube.cluster import Cluster, Pem
from manta.kube.connection_errors import unreachable
from manta.kube.connection_pool import ConnectionPool, Endpoint, NotConnected
from manta.kube.errors import ApiError, Unreachable, error_from
from manta.kube.http1 import ResponseStream, encode_request
from manta.kube.http_proxy import DEFAULT_PORTS
from manta.kube.upgraded import Upgraded, open_upgraded

if TYPE_CHECKING:
    from manta.kube.aiohttp_transport import AiohttpTransport
    from manta.kube.credentials import Credential

Query = tuple[tuple[str, str], ...]


class Request(msgspec.Struct, frozen=True, gc=False):
    method: str
    path: str
    """Percent-encoded, without the query."""
    query: Query = ()
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    timeout: float | None = 30.0
    """Seconds for the whole exchange; for a stream, until its headers have arrived."""
    limit: int | None = None
    """The most bytes of an uncompressed response that are read: for services behind the server's proxy,
    which are less trusted than the server. None: no limit."""


class Response(msgspec.Struct, frozen=True, gc=False):
    status: int
    headers: Mapping[str, str]
    """Keys in lower case."""
    body: bytes
    note: str = ""
    """What the transport adds to an error response, such as which credential was refused."""


class StreamResponse(Protocol):
    """A response whose body is read as it arrives: a watch, a log."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Keys in lower case."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, until the server ends it. Raises Unreachable when the connection breaks."""
        ...


class Transport(Protocol):
    async def send(self, request: Request) -> Response:
        """The response, whatever its status. Raises Unreachable when none came back completely."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]: ...

    async def close(self) -> None: ...


class WebSocket(Protocol):
    """A WebSocket: whole messages in both directions."""

    @property
    def protocol(self) -> str:
        """The subprotocol that the server chose."""
        ...

    async def send(self, message: bytes) -> None: ...

    def messages(self) -> AsyncIterator[bytes]:
        """Messages of the server until it closes. Raises Unreachable when the connection breaks."""
        ...


@runtime_checkable
class UpgradingTransport(Transport, Protocol):
    """A transport that can also open WebSockets, for exec and attach."""

    def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[WebSocket]:
        """Raises the ApiError of a server that refuses."""
        ...


@runtime_checkable
class PassingTransport(UpgradingTransport, Protocol):
    """A transport that also hands on the bytes of an upgraded connection, for proxies."""

    def upgraded(self, request: Request) -> AbstractAsyncContextManager[Upgraded]:
        """A connection on which the server may have switched protocols: see its status. Raises Unreachable."""
        ...


# ── over the network ─────────────────────────────────────────────────────────────────────────
class HttpTransport:
    """Keeps connections alive in a pool. Watches do not count against its limit."""

    def __init__(
        self, cluster: Cluster, *, now: Callable[[], datetime] | None = None, connections: int = 64
    ) -> None:
        from manta.kube.credentials import credential_provider_for

        self.cluster = cluster
        self._credentials = credential_provider_for(cluster.user, now)
        self._connections = connections
        self._pool: _Pool | None = None
        self._retired: set[_Pool] = set()
        self._closed = False

    async def send(self, request: Request) -> Response:
        credential = await self._credentials.credential()
        response = await self._send(request, credential)
        if response.status != 401:
            return response
        # The server answers 401 before it executes the request: any request is safe to retry.
        if await self._credentials.renew(credential):
            credential = await self._credentials.credential()
            response = await self._send(request, credential)
        if response.status != 401:
            return response
        note = self._credentials.explain_refusal(credential)
        return Response(response.status, response.headers, response.body, note)

    async def _send(self, request: Request, credential: Credential) -> Response:
        pool = self._borrow(credential)
        try:
            return await pool.send(request, credential)
        finally:
            await self._give_back(pool)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        credential = await self._credentials.credential()
        async with self._stream(request, credential) as response:
            if response.status != 401 or not await self._credentials.renew(credential):
                yield response
                return
        async with self._stream(request, await self._credentials.credential()) as response:
            yield response

    @asynccontextmanager
    async def _stream(self, request: Request, credential: Credential) -> AsyncIterator[HttpStream]:
        async with self._borrowed(credential) as pool:
            stream = await pool.open(request, credential)
            if stream.status == 401:
                stream.note = self._credentials.explain_refusal(credential)
            try:
                yield stream
            finally:
                stream.close()

    @asynccontextmanager
    async def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AsyncIterator[WebSocket]:
        credential = await self._credentials.credential()
        async with self._borrowed(credential) as pool:
            opened = await pool.aiohttp.open_websocket(request, credential, protocols)
            if isinstance(opened, int):
                raise await self._why_not_upgraded(request, opened)
            try:
                yield opened
            finally:
                await opened.close()

    @asynccontextmanager
    async def upgraded(self, request: Request) -> AsyncIterator[Upgraded]:
        """A connection on which the server may have switched protocols: see its status. Raises Unreachable."""
        credential = await self._credentials.credential()
        async with self._borrowed(credential) as pool:
            opened = await pool.upgraded(request, credential)
            try:
                yield opened
            finally:
                opened.writer.close()

    async def _why_not_upgraded(self, request: Request, status: int) -> ApiError:
        """aiohttp discards the body of a failed upgrade, and with it the reason.

        The same request without an upgrade starts nothing and is refused with the same message.
        """
        plain = await self.send(request)
        body = plain.body if plain.status == status else b""
        return error_from(status, plain.headers, body, plain.note)

    async def close(self) -> None:
        self._closed = True
        pools = {*self._retired, *([self._pool] if self._pool else [])}
        self._pool = None
        self._retired.clear()
        for pool in pools:
            await pool.close()

    @asynccontextmanager
    async def _borrowed(self, credential: Credential) -> AsyncIterator[_Pool]:
        """The pool for this credential; it is not closed while the context is open."""
        pool = self._borrow(credential)
        try:
            yield pool
        finally:
            await self._give_back(pool)

    def _borrow(self, credential: Credential) -> _Pool:
        if self._closed:
            raise Unreachable(f"the client of {self.cluster.server} is closed", sent=False)
        pool = self._pool_for(credential)
        pool.users += 1
        return pool

    async def _give_back(self, pool: _Pool) -> None:
        pool.users -= 1
        if pool in self._retired and not pool.users:
            self._retired.discard(pool)
            await pool.close()

    def _pool_for(self, credential: Credential) -> _Pool:
        """A new client certificate, or a renewed CA file, needs new connections."""
        identity = (credential.certificate, credential.key, _age_of(self.cluster.ca))
        if self._pool is None or self._pool.identity != identity:
            if self._pool:
                self._retired.add(self._pool)
            self._pool = _Pool(self.cluster, identity, self._connections)
        return self._pool


_Identity = tuple[bytes, bytes, int]


class _Pool:
    """Connections with the same client certificate and the same trusted authority."""

    def __init__(self, cluster: Cluster, identity: _Identity, connections: int) -> None:
        self.identity = identity
        self.users = 0
        self._cluster = cluster
        self._limit = connections
        self._tls = _tls_context(cluster, identity)
        self._aiohttp: AiohttpTransport | None = None
        url = urlsplit(cluster.server)
        self._host = url.netloc.rpartition("@")[2]
        self._root = url.path
        port = url.port or DEFAULT_PORTS[url.scheme]
        tls = self._tls if url.scheme == "https" else None
        endpoint = Endpoint(url.hostname or "", port, tls, cluster.server_name)
        self._endpoint = endpoint
        self._direct = None if cluster.proxy else ConnectionPool(endpoint, connections)

    @property
    def aiohttp(self) -> AiohttpTransport:
        """The transport for proxies and WebSockets."""
        if self._aiohttp is None:
            from manta.kube.aiohttp_transport import AiohttpTransport

            self._aiohttp = AiohttpTransport(self._cluster, self._tls, self._limit)
        return self._aiohttp

    async def send(self, request: Request, credential: Credential) -> Response:
        if self._direct is None:
            return await self.aiohttp.send(request, credential)
        try:
            encoded = self._encoded(request, credential)
            answer = await self._direct.send(encoded, request.timeout, request.limit)
        except (NotConnected, TimeoutError, ConnectionError) as error:
            raise unreachable(self._cluster, error) from error
        return Response(*answer)

    async def open(self, request: Request, credential: Credential) -> HttpStream:
        """A stream, which the caller closes. Raises Unreachable."""
        if self._direct is None:
            return await self.aiohttp.open(request, credential)
        try:
            stream = await self._direct.open(self._encoded(request, credential), request.timeout)
        except (NotConnected, TimeoutError, ConnectionError) as error:
            raise unreachable(self._cluster, error) from error
        return HttpStream(stream.status, stream.headers, self._pieces(stream), stream.close)

    async def upgraded(self, request: Request, credential: Credential) -> Upgraded:
        if self._direct is None:
            why = "upgraded connections do not pass the HTTP proxy of the cluster"
            raise Unreachable(f"{self._cluster.server}: {why}", sent=False)
        try:
            encoded = self._encoded(request, credential)
            return await open_upgraded(self._endpoint, encoded, request.timeout)
        except (NotConnected, TimeoutError, ConnectionError) as error:
            raise unreachable(self._cluster, error) from error

    async def _pieces(self, stream: ResponseStream) -> AsyncIterator[bytes]:
        try:
            async for piece in stream.chunks():
                yield piece
        except ConnectionError as error:
            raise unreachable(self._cluster, error) from error

    def _encoded(self, request: Request, credential: Credential) -> bytes:
        query = f"?{urlencode(request.query)}" if request.query else ""
        # Compression costs both sides more time than it saves inside a cluster.
        headers = {"host": self._host, "accept-encoding": "identity"}
        headers |= request.headers
        headers |= credential.headers
        target = f"{self._root}{request.path}{query}"
        return encode_request(request.method, target, headers, request.body, credential.repeated)

    async def close(self) -> None:
        if self._direct is not None:
            await self._direct.close()
        if self._aiohttp is not None:
            await self._aiohttp.close()


class HttpStream:
    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        pieces: AsyncIterator[bytes],
        close: Callable[[], None],
    ) -> None:
        self.status = status
        self.headers = headers
        self.note = ""
        """The note, as in Response."""
        self.close = close
        self._pieces = pieces

    def chunks(self) -> AsyncIterator[bytes]:
        return self._pieces


def _tls_context(cluster: Cluster, identity: _Identity) -> ssl.SSLContext | None:
    if all(urlsplit(url).scheme != "https" for url in (cluster.server, cluster.proxy)):
        return None
    from manta.kube.tls import client_context

    certificate, key, _ = identity
    return client_context(cluster, certificate, key)


def _age_of(ca: Pem | None) -> int:
    try:
        return ca.stat().st_mtime_ns if isinstance(ca, Path) else 0
    except OSError:
        return 0
