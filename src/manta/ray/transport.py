"""Sends requests to a dashboard: directly to the head, or by a transport of the caller.

One of the two files that know the HTTP library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from manta.api.text import one_line, without_credentials
from manta.ray.models import Target, Unreachable

if TYPE_CHECKING:
    import aiohttp

DIRECT_TIMEOUT_SECONDS = 2.0
PROXIED_TIMEOUT_SECONDS = 10.0
"""KubeRay's limits. The API server's proxy adds its own delays."""

MAX_REPLY_BYTES = 4 * 1024 * 1024
"""The operator queries many dashboards at once within 512 MiB."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes


class DashboardTransport(Protocol):
    """Sends one request to a dashboard. Failures are returned as `Unreachable`, never raised."""

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply | Unreachable: ...

    async def probe(self, url: str) -> Reply | Unreachable:
        """A plain GET without headers of ours: the health check of a Serve proxy."""
        ...

    async def close(self) -> None: ...


def headers_for(target: Target, body: bytes | None) -> dict[str, str]:
    """The token is in Ray's own header: a proxy in between may use `Authorization`."""
    # Uncompressed, so that a small reply cannot expand to megabytes.
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    if target.token:
        headers["x-ray-authorization"] = f"Bearer {target.token}"
    return headers


def _refusal(status: int, headers: Mapping[str, str]) -> str:
    """Why a reply is not read; empty if it is."""
    if 300 <= status < 400:
        where = without_credentials(headers.get("Location", ""), 100)
        return f"the dashboard answered {status} to {where!r}: redirects are not followed"
    encoding = headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        return f"the answer is encoded as {one_line(encoding, 20)!r}, which was not asked for"
    return ""


class DirectTransport:
    """Requests to the head Service: for an operator that runs inside the cluster."""

    def __init__(self, timeout: float = DIRECT_TIMEOUT_SECONDS) -> None:
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply | Unreachable:
        return await self._request(method, target.url + path, headers_for(target, body), body)

    async def probe(self, url: str) -> Reply | Unreachable:
        return await self._request("GET", url, {"Accept-Encoding": "identity"}, None)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _request(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None
    ) -> Reply | Unreachable:
        import aiohttp
        from yarl import URL

        session, address = self._open(), URL(url, encoded=True)
        # A redirect could send the token of this head anywhere.
        options: Any = {"allow_redirects": False, "auto_decompress": False}
        try:
            async with session.request(
                method, address, headers=headers, data=body, **options
            ) as answer:
                if refused := _refusal(answer.status, answer.headers):
                    return Unreachable(f"{method} {url}: {refused}")
                whole = await _read(answer.content)
                if whole is None:
                    return Unreachable(f"{method} {url}: more than {MAX_REPLY_BYTES} bytes")
                return Reply(answer.status, whole)
        except aiohttp.ClientConnectorError as error:
            why = without_credentials(str(error))
            return Unreachable(f"{method} {url}: {why}", sent=False)
        except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: an invalid header
            why = without_credentials(f"{type(error).__name__}: {error}")
            return Unreachable(f"{method} {url}: {why}")
        except TimeoutError:
            return Unreachable(f"{method} {url}: no answer within {self._timeout:g} s")

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            # No total limit: dashboards that hang must not use up the connections of others.
            connector = aiohttp.TCPConnector(limit=0, limit_per_host=4)
            timeout = aiohttp.ClientTimeout(total=self._timeout)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self._session


async def _read(content: aiohttp.StreamReader) -> bytes | None:
    """The whole body; None if it is longer than MAX_REPLY_BYTES."""
    whole = bytearray()
    async for piece in content.iter_any():
        whole += piece
        if len(whole) > MAX_REPLY_BYTES:
            return None
    return bytes(whole)
