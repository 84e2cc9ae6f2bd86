"""The head of a response. Only here headers are written, and checked against response splitting."""

from __future__ import annotations

import email.utils
import http
import re
from collections.abc import Iterable

from manta.httpserver.messages import Headers, HttpResponse

_REASONS = {status.value: status.phrase for status in http.HTTPStatus}
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class UnsafeHeaderError(ValueError):
    """A header with characters that would end it early or start another one."""


def head_bytes(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return status line, headers and the empty line after them. Raises UnsafeHeaderError."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, '')}"]
    for name, value in headers:
        if _NAME.fullmatch(name) is None:
            raise UnsafeHeaderError(f"the header name {name!r} is not a token")
        if _CONTROL.search(value) is not None:
            raise UnsafeHeaderError(f"the header {name} has a control character: {value!r}")
        lines.append(f"{name}: {value}")
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"


def response_head(
    response: HttpResponse, length: int | None, defaults: Headers, *, keep_alive: bool
) -> bytes:
    """Return the head of `response`, whose body has `length` bytes (None: sent in chunks).

    `defaults` are headers for responses that do not set them. Raises UnsafeHeaderError.
    """
    bodyless = response.status in (204, 304)
    names = {name.lower() for name, _ in response.headers}
    headers = []
    if length is None and "content-length" not in names:
        headers.append(("Transfer-Encoding", "chunked"))
    elif length is not None and not bodyless:
        headers.append(("Content-Length", str(length)))
    if response.content_type and not bodyless:
        headers.append(("Content-Type", response.content_type))
    headers += [header for header in defaults if header[0].lower() not in names]
    headers += response.headers
    if not keep_alive:
        headers.append(("Connection", "close"))
    headers.append(("Date", email.utils.formatdate(usegmt=True)))
    return head_bytes(response.status, headers)
