"""The headers that pass, in both directions: everything else stays here. Pure.

Cookies, forwarding and impersonation headers never reach Kubernetes, and no service behind a proxy can set a cookie
on the console's origin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from manta.client import websockets
from manta.console.api.statuses import RefusedError
from manta.httpserver.messages import Headers

_REQUEST: Final = ("accept", "content-type", "user-agent")
_TO_SERVICES: Final = (
    "accept-language",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "range",
    "serve-multiplexed-model-id",
    "x-ray-authorization",
    "x-request-id",
)
"""`X-Ray-Authorization` is Ray's own token: Kubernetes uses up `Authorization`."""
_RESPONSE: Final = (
    "accept-ranges",
    "audit-id",
    "content-disposition",
    "content-range",
    "etag",
    "last-modified",
    "retry-after",
    "warning",
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
    "x-request-id",
)
_TRAVERSAL: Final = re.compile(r"//|\\|\.\.|%2e|[\x00-\x20\x7f]", re.IGNORECASE)
RESPONSE_HEADERS: Final[Headers] = (
    ("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'"),
)
"""Headers of every answer: a browser that shows it runs nothing of it."""


def to_kubernetes(headers: Mapping[str, str], *, service: bool = False) -> dict[str, str]:
    """Raises RefusedError for impersonation: ignoring it would use more rights than the caller asked for."""
    for name in headers:
        if name.startswith("impersonate-"):
            raise RefusedError(400, f"the header {name} is not passed on; send that user's token")
    allowed = (*_REQUEST, *_TO_SERVICES) if service else _REQUEST
    kept = {name: headers[name] for name in allowed if name in headers}
    # HttpRequest has latin-1 text; the client writes UTF-8.
    return {name: value.encode("ascii", "replace").decode() for name, value in kept.items()}


def to_caller(headers: Mapping[str, str], inside: str = "") -> Headers:
    """`inside`: the path that a redirect may lead to; it is dropped if it leads anywhere else."""
    kept = [(name, headers[name]) for name in _RESPONSE if name in headers]
    location = headers.get("location", "")
    if inside and location.startswith(inside) and not _TRAVERSAL.search(location):
        kept.append(("location", location))
    return (*kept, *RESPONSE_HEADERS)


def handshake(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a caller's WebSocket handshake that a Service gets. Raises RefusedError as `to_kubernetes` does."""
    return {**to_kubernetes(headers, service=True), **websockets.handshake(headers)}
