"""HTTP over aiohttp, for what `http1` does not implement: proxies and WebSockets.

The only module of this package that imports aiohttp; it is imported when first needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from manta.kube.cluster import Cluster
from manta.kube.connection_errors import about, untrusted
from manta.kube.connection_pool import CONNECT_TIMEOUT_SECONDS, KEEP_ALIVE_SECONDS
from manta.kube.errors import Unreachable
from manta.kube.transport import HttpStream, Request, Response

if TYPE_CHECKING:
    from manta.kube.credentials import Credential

HEARTBEAT_SECONDS = 30.0


class AiohttpTransport:
    """Two sessions of aiohttp: one for responses, one for streams, which may last for ever."""

    def __init__(self, cluster: Cluster, tls: Any, connections: int) -> None:
        self._cluster = cluster
        self._options: dict[str, Any] = {}
        if cluster.proxy:
            self._options["proxy"] = cluster.proxy
        if cluster.server_name:
            self._options["server_hostname"] = cluster.server_name
        self._answers = _session(tls or True, connections)
        self._streams = _session(tls or True, 0)

    async def send(self, request: Request, credential: Credential) -> Response:
        with _translated(self._cluster):
            async with self._request(self._answers, request, credential, request.timeout) as answer:
                body = await self._body(answer, request.limit)
                return Response(answer.status, _lower(answer), body)

    async def _body(self, answer: aiohttp.ClientResponse, limit: int | None) -> bytes:
        if limit is None:
            return await answer.read()
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise Unreachable(
                about(self._cluster, "the response is compressed although that was not requested"),
                sent=True,
            )
        whole = bytearray()
        async for piece in answer.content.iter_any():
            whole += piece
            if len(whole) > limit:
                too_long = f"the response has more than {limit} bytes"
                raise Unreachable(about(self._cluster, too_long), sent=True)
        return bytes(whole)

    async def open(self, request: Request, credential: Credential) -> HttpStream:
        with _translated(self._cluster):
            async with asyncio.timeout(request.timeout):
                opening = self._request(self._streams, request, credential, None)
                answer = await opening.__aenter__()
        return HttpStream(answer.status, _lower(answer), self._pieces(answer), answer.close)

    async def _pieces(self, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        with _translated(self._cluster):
            async for piece in answer.content.iter_any():
                yield piece

    def _request(
        self,
        session: aiohttp.ClientSession,
        request: Request,
        credential: Credential,
        total: float | None,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return session.request(
            request.method,
            self._url(request),
            headers=_headers(request, credential),
            data=request.body,
            allow_redirects=False,
            auto_decompress=None if request.limit is None else False,
            timeout=aiohttp.ClientTimeout(
                total=total,
                connect=min(CONNECT_TIMEOUT_SECONDS, request.timeout or CONNECT_TIMEOUT_SECONDS),
            ),
            **self._options,
        )

    async def open_websocket(
        self, request: Request, credential: Credential, protocols: Sequence[str]
    ) -> HttpWebSocket | int:
        """The open WebSocket, or the status with which the server refused it. Raises Unreachable."""
        refused = aiohttp.WSServerHandshakeError
        try:
            with _translated(self._cluster, passing=(refused,)):
                async with asyncio.timeout(request.timeout):
                    socket = await self._streams.ws_connect(
                        self._url(request),
                        protocols=protocols,
                        headers=_headers(request, credential),
                        heartbeat=HEARTBEAT_SECONDS,
                        max_msg_size=0,
                        **self._options,
                    )
        except refused as error:
            return error.status
        return HttpWebSocket(socket, self._cluster)

    def _url(self, request: Request) -> Any:
        query = f"?{urlencode(request.query)}" if request.query else ""
        return URL(f"{self._cluster.server}{request.path}{query}", encoded=True)

    async def close(self) -> None:
        await self._answers.close()
        await self._streams.close()


class HttpWebSocket:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse, cluster: Cluster) -> None:
        self.protocol = socket.protocol or ""
        self._socket = socket
        self._cluster = cluster

    async def send(self, message: bytes) -> None:
        with _translated(self._cluster):
            await self._socket.send_bytes(message)

    async def close(self) -> None:
        await self._socket.close()

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield messages until the peer closes. Raises Unreachable."""
        with _translated(self._cluster):
            async for message in self._socket:
                if message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
                    data = message.data
                    yield data.encode() if isinstance(data, str) else data
        # 1006: the connection ended without a close frame.
        if self._socket.close_code == 1006 or self._socket.exception():
            raise Unreachable(about(self._cluster, "the connection broke"), sent=True)


def _session(context: Any, connections: int) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        ssl=context, limit=connections, keepalive_timeout=KEEP_ALIVE_SECONDS
    )
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        # Compression costs both sides more time than it saves inside a cluster.
        headers={"accept-encoding": "identity"},
        skip_auto_headers=("content-type", "user-agent"),
    )
    # aiohttp retries a PUT or DELETE by itself when a kept-alive connection is dead. The server may have
    # executed the first, and the retry would then report a false conflict.
    session._retry_connection = False  # noqa: SLF001  # there is no public option; a test covers it
    return session


def _headers(request: Request, credential: Credential) -> list[tuple[str, str]]:
    once = {**request.headers, **credential.headers}
    return [*once.items(), *credential.repeated]


def _lower(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


@contextmanager
def _translated(cluster: Cluster, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn every exception of aiohttp except `passing` into Unreachable."""
    try:
        yield
    except passing:
        raise
    except aiohttp.ClientConnectorCertificateError as error:
        raise untrusted(cluster, error.certificate_error) from error
    except aiohttp.ClientHttpProxyError as error:
        # The text of the exception contains the password of the proxy.
        raise Unreachable(
            about(cluster, f"the proxy answered {error.status}"), sent=False
        ) from None
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise Unreachable(about(cluster, error), sent=False) from error
    except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
        raise Unreachable(about(cluster, error), sent=True) from error
