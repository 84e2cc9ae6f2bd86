"""Bytes to an API server and bytes back: the one seam below the client.

The pure half (Request, Response, StreamResponse, Transport) imports nothing heavy, so that an
in-process server can implement it. HttpTransport is the only code of this room that knows
aiohttp, and loads it at the first request.

Promise: every failure leaves here as `errors.Unreachable`, and its `sent` is False only when
it is proven that the server cannot have seen the request.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import urlencode, urlsplit

from manta.kube.cluster import Cluster, Pem
from manta.kube.errors import ApiError, Unreachable, error_from

if TYPE_CHECKING:
    import aiohttp

    from manta.kube.login import Credential

Query = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    """As it stands on the request line: percent-encoded, without the query."""
    query: Query = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float | None = 30.0
    """Seconds for the whole exchange; for a stream, until its headers have come."""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Mapping[str, str]
    """Keys in lower case."""
    body: bytes
    note: str = ""
    """What the transport knows about a refusal and the server does not say."""


class StreamResponse(Protocol):
    """An answer whose body goes on: a watch, a log."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Keys in lower case."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Ends when the server ends it; a loss raises Unreachable."""
        ...


class Transport(Protocol):
    async def send(self, request: Request) -> Response:
        """Raises Unreachable when no complete answer came back."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]: ...

    async def close(self) -> None: ...


class WebSocket(Protocol):
    """A connection that left HTTP: whole messages both ways."""

    @property
    def protocol(self) -> str:
        """The one of the offered protocols that the server chose."""
        ...

    async def send(self, message: bytes) -> None: ...

    def messages(self) -> AsyncIterator[bytes]:
        """What the server sends, until it closes. A loss raises Unreachable."""
        ...


@runtime_checkable
class UpgradingTransport(Transport, Protocol):
    """A transport that can also open WebSockets, for exec and attach."""

    def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[WebSocket]:
        """Raises the ApiError of a server that refuses."""
        ...


# ── over the network ─────────────────────────────────────────────────────────────────────────
CONNECT_TIMEOUT = 10.0
HEARTBEAT = 30.0
KEEP_ALIVE = 30.0
"""Shorter than the idle limit of API servers (90 s), so that we, not they, close idle ones: a
write that meets a connection which the server is just closing is lost without a trace."""


class HttpTransport:
    """Keeps connections alive in a pool. Watches have their own, so that they never fill it."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        now: Callable[[], datetime] | None = None,
        connections: int = 64,
    ) -> None:
        from manta.kube.login import login_for

        self.cluster = cluster
        self._login = login_for(cluster.user, now)
        self._connections = connections
        self._pool: _Pool | None = None
        self._retired: set[_Pool] = set()
        self._closed = False

    async def send(self, request: Request) -> Response:
        credential = await self._login.credential()
        response = await self._send(request, credential)
        if response.status != 401:
            return response
        # A 401 is given before the request is looked at: it is safe to repeat, whatever it was.
        if await self._login.renew(credential):
            credential = await self._login.credential()
            response = await self._send(request, credential)
        if response.status != 401:
            return response
        note = self._login.why_refused(credential)
        return Response(response.status, response.headers, response.body, note)

    async def _send(self, request: Request, credential: Credential) -> Response:
        async with self._borrowed(credential) as pool:
            with _translated(self.cluster):
                async with pool.request(request, credential) as response:
                    return Response(response.status, _lower(response), await response.read())

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        credential = await self._login.credential()
        async with self._stream(request, credential) as response:
            if response.status != 401 or not await self._login.renew(credential):
                yield response
                return
        async with self._stream(request, await self._login.credential()) as response:
            yield response

    @asynccontextmanager
    async def _stream(self, request: Request, credential: Credential) -> AsyncIterator[_HttpStream]:
        async with self._borrowed(credential) as pool:
            opening = pool.request(request, credential, endless=True)
            with _translated(self.cluster):
                async with asyncio.timeout(request.timeout):
                    response = await opening.__aenter__()
            refused = response.status == 401
            note = self._login.why_refused(credential) if refused else ""
            try:
                yield _HttpStream(response, self.cluster, note)
            finally:
                # Not released to the pool: the rest of an endless body is never read.
                response.close()

    @asynccontextmanager
    async def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AsyncIterator[WebSocket]:
        import aiohttp

        credential = await self._login.credential()
        async with self._borrowed(credential) as pool:
            try:
                with _translated(self.cluster, passing=(aiohttp.WSServerHandshakeError,)):
                    socket = await pool.open_websocket(request, credential, protocols)
            except aiohttp.WSServerHandshakeError as error:
                raise await self._why_not_upgraded(request, error.status) from None
            try:
                yield _HttpWebSocket(socket, self.cluster)
            finally:
                await socket.close()

    async def _why_not_upgraded(self, request: Request, status: int) -> ApiError:
        """The HTTP library throws the body of a failed upgrade away, and with it the reason.

        The same request without an upgrade starts nothing, and is refused with the same words.
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
        """The pool for this credential, until what was asked of it is answered."""
        if self._closed:
            raise Unreachable(f"the client of {self.cluster.server} is closed", sent=False)
        pool = self._pool_for(credential)
        pool.users += 1
        try:
            yield pool
        finally:
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
    """Connections that show the same client certificate and trust the same authority."""

    def __init__(self, cluster: Cluster, identity: _Identity, connections: int) -> None:
        self.identity = identity
        self.users = 0
        self._base = cluster.server
        self._options: dict[str, Any] = {}
        if cluster.proxy:
            self._options["proxy"] = cluster.proxy
        if cluster.server_name:
            self._options["server_hostname"] = cluster.server_name
        _load_aiohttp()
        context = _tls_context(cluster, identity)
        self._answers = _session(context, connections)
        self._streams = _session(context, 0)

    def request(
        self, request: Request, credential: Credential, *, endless: bool = False
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        from aiohttp import ClientTimeout

        session = self._streams if endless else self._answers
        return session.request(
            request.method,
            self._url(request),
            headers={**request.headers, **credential.headers},
            data=request.body,
            allow_redirects=False,
            timeout=ClientTimeout(
                total=None if endless else request.timeout,
                connect=min(CONNECT_TIMEOUT, request.timeout or CONNECT_TIMEOUT),
            ),
            **self._options,
        )

    async def open_websocket(
        self, request: Request, credential: Credential, protocols: Sequence[str]
    ) -> aiohttp.ClientWebSocketResponse:
        async with asyncio.timeout(request.timeout):
            socket: aiohttp.ClientWebSocketResponse = await self._streams.ws_connect(
                self._url(request),
                protocols=protocols,
                headers={**request.headers, **credential.headers},
                heartbeat=HEARTBEAT,
                max_msg_size=0,
                **self._options,
            )
            return socket

    def _url(self, request: Request) -> Any:
        from yarl import URL

        query = f"?{urlencode(request.query)}" if request.query else ""
        return URL(f"{self._base}{request.path}{query}", encoded=True)

    async def close(self) -> None:
        await self._answers.close()
        await self._streams.close()


class _HttpStream:
    def __init__(self, response: aiohttp.ClientResponse, cluster: Cluster, note: str) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = _lower(response)
        self.note = note
        """As that of a Response."""
        self._response = response
        self._cluster = cluster

    async def chunks(self) -> AsyncIterator[bytes]:
        with _translated(self._cluster):
            async for chunk in self._response.content.iter_any():
                yield chunk


class _HttpWebSocket:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse, cluster: Cluster) -> None:
        self.protocol = socket.protocol or ""
        self._socket = socket
        self._cluster = cluster

    async def send(self, message: bytes) -> None:
        with _translated(self._cluster):
            await self._socket.send_bytes(message)

    async def messages(self) -> AsyncIterator[bytes]:
        from aiohttp import WSMsgType

        with _translated(self._cluster):
            async for message in self._socket:
                if message.type in (WSMsgType.BINARY, WSMsgType.TEXT):
                    data = message.data
                    yield data.encode() if isinstance(data, str) else data
        # 1006: the connection ended without a word of farewell.
        if self._socket.close_code == 1006 or self._socket.exception():
            raise Unreachable(_about(self._cluster, "the connection broke"), sent=True)


def _load_aiohttp() -> None:
    """Import it without the certificate authorities of this machine.

    It reads all of them, twice, while it is imported, for two contexts that we do not use: we
    give every connection that needs one a context of our own (`tls.py`). That is the largest
    single piece of the way to the first request.
    """
    if "aiohttp" in sys.modules:
        return
    import ssl

    def nothing(_context: ssl.SSLContext) -> None: ...

    plain: Any = ssl.SSLContext  # the method is inherited: what is set here only hides it
    plain.set_default_verify_paths = nothing
    try:
        import aiohttp  # noqa: F401
    finally:
        del plain.set_default_verify_paths


def _tls_context(cluster: Cluster, identity: _Identity) -> Any:
    if all(urlsplit(url).scheme != "https" for url in (cluster.server, cluster.proxy)):
        return True
    from manta.kube.tls import client_context

    certificate, key, _ = identity
    return client_context(cluster, certificate, key)


def _age_of(ca: Pem | None) -> int:
    try:
        return ca.stat().st_mtime_ns if isinstance(ca, Path) else 0
    except OSError:
        return 0


def _session(context: Any, connections: int) -> aiohttp.ClientSession:
    from aiohttp import ClientSession, DummyCookieJar, TCPConnector

    connector = TCPConnector(ssl=context, limit=connections, keepalive_timeout=KEEP_ALIVE)
    session = ClientSession(
        connector=connector,
        cookie_jar=DummyCookieJar(),
        # Compression costs both sides more time than it saves inside a cluster.
        headers={"accept-encoding": "identity"},
        skip_auto_headers=("content-type", "user-agent"),
    )
    # aiohttp repeats a PUT or a DELETE on its own when a kept connection turns out to be dead.
    # The first may have been carried out, and its repeat would then report a false conflict.
    session._retry_connection = False  # noqa: SLF001  # there is no public way; a test watches it
    return session


def _lower(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


@contextmanager
def _translated(cluster: Cluster, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Every failure of the HTTP library but `passing` becomes Unreachable, here and nowhere else."""
    import aiohttp

    try:
        yield
    except passing:
        raise
    except aiohttp.ClientConnectorCertificateError as error:
        raise Unreachable(
            f"the certificate of {cluster.server} is not trusted ({error.certificate_error}); "
            f"check certificate-authority and tls-server-name of {cluster.origin}",
            sent=False,
        ) from error
    except aiohttp.ClientHttpProxyError as error:
        # Its own text would show the password of the proxy.
        raise Unreachable(_about(cluster, f"it said {error.status}"), sent=False) from None
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise Unreachable(_about(cluster, error), sent=False) from error
    except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
        raise Unreachable(_about(cluster, error), sent=True) from error


def _about(cluster: Cluster, said: object) -> str:
    via = f" through proxy {urlsplit(cluster.proxy).hostname}" if cluster.proxy else ""
    return f"no answer from {cluster.server}{via}: {str(said) or type(said).__name__}"
