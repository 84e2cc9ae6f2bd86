"""How the operator reaches Ray: straight to the heads, or through the API server's proxy.

The proxy way (`--use-kubernetes-proxy`) works wherever the API server is reached: from a laptop, and
from `manta up`, whose Pods live on a bridge of their own.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from manta.api.text import without_credentials
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.kube.errors import Unreachable as ServerUnreachable
from manta.kube.proxy import service_proxy_path
from manta.kube.transport import Response
from manta.ray.dashboard import Dashboard
from manta.ray.models import Target, Unreachable
from manta.ray.transport import (
    MAX_ANSWER,
    PROXIED_TIMEOUT,
    Courier,
    DirectCourier,
    Reply,
    headers_for,
)
from manta.rules.settings import Settings
from manta.runtime.tracing import fail, span


def open_dashboard(client: Client, settings: Settings) -> Dashboard:
    courier: Courier = ProxyCourier(client) if settings.use_kubernetes_proxy else DirectCourier()
    return Dashboard(TracedCourier(courier))


class TracedCourier:
    """A span for each question to a dashboard, if traces are on."""

    def __init__(self, inner: Courier) -> None:
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


class ProxyCourier:
    """Through `services/proxy` and `pods/proxy`, with the operator's own credentials."""

    def __init__(
        self, client: Client, timeout: float = PROXIED_TIMEOUT, limit: int = MAX_ANSWER
    ) -> None:
        """`limit`: the most bytes of an answer that are read."""
        self._client = client
        self._timeout = timeout
        self._limit = limit

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply | Unreachable:
        bare, _, query = path.partition("?")
        way = service_proxy_path(target.namespace, target.service, target.port_name, bare)
        return await self._pass(method, way, query, headers_for(target, body), body)

    async def probe(self, url: str) -> Reply | Unreachable:
        """`url` is the path of a Pod's proxy on the API server here."""
        parts = urlsplit(url)
        return await self._pass("GET", parts.path, parts.query, {}, None)

    async def close(self) -> None:
        """The client belongs to the operator."""

    async def _pass(
        self, method: str, path: str, query: str, headers: dict[str, str], body: bytes | None
    ) -> Reply | Unreachable:
        pairs = tuple((name, value) for name, _, value in map(_pair, query.split("&")) if name)
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
        except (MantaError, ValueError) as error:  # the last: an odd header
            return Unreachable(str(error), sent=False)
        if is_from_the_server(response):
            text = without_credentials(response.body[:1000].decode("utf-8", "replace"), 200)
            return Unreachable(f"the API server did not reach the dashboard: {text}", sent=False)
        if 300 <= response.status < 400:
            return Unreachable(f"{method} {path}: {response.status}: redirects are not followed")
        if len(response.body) > self._limit:
            return Unreachable(f"{method} {path}: more than {self._limit} bytes")
        return Reply(response.status, response.body)


def _pair(text: str) -> tuple[str, str, str]:
    return text.partition("=")


def is_from_the_server(response: Response) -> bool:
    """A Status object: Ray never speaks so. A 404 of the server's is no 404 of Ray's.

    Nor does it ever refuse for load; the server does, in plain words.
    """
    if response.status == 429:
        return True
    return response.status >= 400 and b'"kind":"Status"' in response.body.replace(b" ", b"")[:200]
