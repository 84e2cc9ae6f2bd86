"""Requests to an OIDC issuer and to the history server, over the project's own HTTP client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import parse_qsl, urlsplit

from manta.kube.cluster import Cluster, Pem
from manta.kube.http_proxy import proxy_for
from manta.kube.transport import HttpTransport, Request, Response

MAX_BYTES: Final = 1024 * 1024
_TIMEOUT_SECONDS: Final = 10.0
_MAX_ORIGINS: Final = 8


class Fetch(Protocol):
    async def __call__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Response:
        """The response, whatever its status. Raises Unreachable."""
        ...


class HttpFetch:
    """One pool of connections for each origin; an answer has at most `MAX_BYTES`, redirects are not followed."""

    def __init__(self, environment: Mapping[str, str], ca: Pem | None = None) -> None:
        self._environment = environment
        self._ca = ca
        self._transports: dict[str, HttpTransport] = {}

    async def __call__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Response:
        parts = urlsplit(url)
        query = tuple(parse_qsl(parts.query, keep_blank_values=True))
        request = Request(
            method, parts.path or "/", query, headers or {}, body, _TIMEOUT_SECONDS, MAX_BYTES
        )
        return await self._transport(f"{parts.scheme}://{parts.netloc}").send(request)

    def _transport(self, origin: str) -> HttpTransport:
        if origin not in self._transports:
            if len(self._transports) >= _MAX_ORIGINS:
                raise ValueError(f"{origin}: more than {_MAX_ORIGINS} origins of one issuer")
            proxy = proxy_for(origin, self._environment)
            self._transports[origin] = HttpTransport(
                Cluster(server=origin, ca=self._ca, proxy=proxy, origin=origin)
            )
        return self._transports[origin]

    async def close(self) -> None:
        for one in self._transports.values():
            await one.close()
