"""Reach Ray dashboards: directly, or through the proxy of the API server.

The proxy (`--use-kubernetes-proxy`) works wherever the API server is reachable: from a laptop, and
with `manta up`, whose Pods have a network of their own.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from manta.api.text import without_credentials
from manta.kube.client import Client
from manta.kube.errors import MantaError, error_from
from manta.kube.errors import Unreachable as ServerUnreachable
from manta.kube.proxy import ProxyNameError, service_proxy_path
from manta.kube.transport import Response
from manta.ray.dashboard import Dashboard
from manta.ray.models import Target, Unreachable
from manta.ray.transport import (
    MAX_REPLY_BYTES,
    PROXIED_TIMEOUT_SECONDS,
    DashboardTransport,
    DirectTransport,
    Reply,
    headers_for,
)
from manta.rules.settings import Settings
from manta.runtime.tracing import fail, span


def open_dashboard(client: Client, settings: Settings) -> Dashboard:
    transport: DashboardTransport = (
        ProxyTransport(client) if settings.use_kubernetes_proxy else DirectTransport()
    )
    return Dashboard(TracedTransport(transport))


class TracedTransport:
    """Records a span for each request to a dashboard."""

    def __init__(self, inner: DashboardTransport) -> None:
        self._inner = inner

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply | Unreachable:
        where = f"{target.namespace}/{target.service}"
        with span(f"dashboard {method}", **{"ray.head": where, "url.path": path}):
            return _traced(await self._inner.send(target, method, path, body))

    async def probe(self, url: str) -> Reply | Unreachable:
        with span("dashboard probe", **{"url.full": url}):
            return _traced(await self._inner.probe(url))

    async def close(self) -> None:
        await self._inner.close()


def _traced(reply: Reply | Unreachable) -> Reply | Unreachable:
    if isinstance(reply, Unreachable):
        fail(reply.why)
    elif reply.status >= 400:
        fail(f"status {reply.status}")
    return reply


class ProxyTransport:
    """Sends requests through `services/proxy` and `pods/proxy`, with the client's credentials."""

    def __init__(
        self, client: Client, timeout: float = PROXIED_TIMEOUT_SECONDS, limit: int = MAX_REPLY_BYTES
    ) -> None:
        """`limit`: maximum bytes of a reply."""
        self._client = client
        self._timeout = timeout
        self._limit = limit

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply | Unreachable:
        bare, _, query = path.partition("?")
        try:
            proxied = service_proxy_path(target.namespace, target.service, target.port_name, bare)
        except ProxyNameError as error:
            return Unreachable(str(error), sent=False)
        return await self._send(method, proxied, query, headers_for(target, body), body)

    async def probe(self, url: str) -> Reply | Unreachable:
        """`url`: path of a Pod's proxy on the API server."""
        parts = urlsplit(url)
        return await self._send("GET", parts.path, parts.query, {}, None)

    async def close(self) -> None:
        """Leaves the client open: it belongs to the caller."""

    async def _send(
        self, method: str, path: str, query: str, headers: dict[str, str], body: bytes | None
    ) -> Reply | Unreachable:
        pairs = tuple(parse_qsl(query, keep_blank_values=True))  # the client encodes it again
        try:
            response = await self._client.send(
                method,
                path,
                query=pairs,
                headers=headers,
                body=body,
                timeout=self._timeout,
                check=False,
                limit=self._limit,
            )
        except ServerUnreachable as error:
            return Unreachable(str(error), sent=error.sent)
        except (MantaError, ValueError) as error:  # ValueError: an invalid header
            return Unreachable(str(error), sent=False)
        if is_from_api_server(response):
            text = without_credentials(message_of(response), 200)
            return Unreachable(f"the API server did not reach the dashboard: {text}", sent=False)
        if 300 <= response.status < 400:
            return Unreachable(f"{method} {path}: {response.status}: redirects are not followed")
        if len(response.body) > self._limit:
            return Unreachable(f"{method} {path}: more than {self._limit} bytes")
        return Reply(response.status, response.body)


def message_of(response: Response) -> str:
    """What the API server says of an error: the message of its Status."""
    return error_from(response.status, response.headers, response.body).message


def is_from_api_server(response: Response) -> bool:
    """Whether the API server itself replied, not Ray: with a Status object, or with 429.

    Ray never does either. So a 404 of the API server is not taken for a 404 of Ray.
    """
    if response.status == 429:
        return True
    return response.status >= 400 and b'"kind":"Status"' in response.body.replace(b" ", b"")[:200]
