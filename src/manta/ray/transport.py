"""How bytes get to a dashboard: straight to the head, or by a courier that others supply.

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

DIRECT_TIMEOUT = 2.0
PROXIED_TIMEOUT = 10.0
"""KubeRay's two limits: a Pod answers fast or is sick; the API server's proxy adds its own waits."""

MAX_ANSWER = 4 * 1024 * 1024
"""Bytes. Dozens of dashboards are asked at once, and the operator runs in 512 MiB."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes


class Courier(Protocol):
    """Carries one request to a dashboard. Never raises for what the far side does."""

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply | Unreachable: ...

    async def probe(self, url: str) -> Reply | Unreachable:
        """A bare GET, for the health of a Serve proxy on a Pod."""
        ...

    async def close(self) -> None: ...


def headers_for(target: Target, body: bytes | None) -> dict[str, str]:
    """Ray reads its own header, so that a proxy on the way may keep `Authorization` for itself."""
    # Not compressed: a few bytes on the wire must not become megabytes here.
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    if target.token:
        headers["x-ray-authorization"] = f"Bearer {target.token}"
    return headers


def _refusal(status: int, headers: Mapping[str, str]) -> str:
    """Why an answer is not read at all; empty: it is."""
    if 300 <= status < 400:
        where = without_credentials(headers.get("Location", ""), 100)
        return f"the dashboard answered {status} to {where!r}: redirects are not followed"
    encoding = headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        return f"the answer is encoded as {one_line(encoding, 20)!r}, which was not asked for"
    return ""


class DirectCourier:
    """Requests straight to the head Service: for an operator that runs inside the cluster."""

    def __init__(self, timeout: float = DIRECT_TIMEOUT) -> None:
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
        # A redirect could lead anywhere, with the token of this head.
        options: Any = {"allow_redirects": False, "auto_decompress": False}
        try:
            async with session.request(
                method, address, headers=headers, data=body, **options
            ) as answer:
                if refused := _refusal(answer.status, answer.headers):
                    return Unreachable(f"{method} {url}: {refused}")
                whole = await _read(answer.content)
                if whole is None:
                    return Unreachable(f"{method} {url}: more than {MAX_ANSWER} bytes")
                return Reply(answer.status, whole)
        except aiohttp.ClientConnectorError as error:
            why = without_credentials(str(error))
            return Unreachable(f"{method} {url}: {why}", sent=False)
        except (aiohttp.ClientError, OSError, ValueError) as error:  # the last: an odd header
            why = without_credentials(f"{type(error).__name__}: {error}")
            return Unreachable(f"{method} {url}: {why}")
        except TimeoutError:
            return Unreachable(f"{method} {url}: no answer within {self._timeout:g} s")

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            # A dashboard that hangs must not use up the connections of the others.
            connector = aiohttp.TCPConnector(limit=0, limit_per_host=4)
            timeout = aiohttp.ClientTimeout(total=self._timeout)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self._session


async def _read(content: aiohttp.StreamReader) -> bytes | None:
    """All of a body, which comes in pieces; None when it is more than we are ready to hold."""
    whole = bytearray()
    async for piece in content.iter_any():
        whole += piece
        if len(whole) > MAX_ANSWER:
            return None
    return bytes(whole)
