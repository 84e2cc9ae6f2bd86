"""The first lines of an answer: the one place that writes headers, and refuses what would break them."""

from __future__ import annotations

import email.utils
import http
import re
from collections.abc import Iterable

Headers = Iterable[tuple[str, str]]

_REASONS = {status.value: status.phrase for status in http.HTTPStatus}
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class UnsafeHeaderError(ValueError):
    """A header that would end early, or begin another one."""


def head_bytes(status: int, headers: Headers) -> bytes:
    """Status line and headers with the empty line after them. Raises UnsafeHeaderError."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, '')}"]
    for name, value in headers:
        if _NAME.fullmatch(name) is None:
            raise UnsafeHeaderError(f"the header name {name!r} is not a token")
        if _CONTROL.search(value) is not None:
            raise UnsafeHeaderError(f"the header {name} has a control character: {value!r}")
        lines.append(f"{name}: {value}")
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"


def date_header() -> tuple[str, str]:
    return "Date", email.utils.formatdate(usegmt=True)
