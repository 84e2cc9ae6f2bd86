"""The exceptions of this package, as one tree.

    MantaError
    ├── ApiError              the API server answered with an error
    │   ├── BadRequest        400
    │   ├── Unauthorized      401
    │   ├── Forbidden         403
    │   ├── NotFound          404; `.of_type` when the resource type itself is not served
    │   ├── Conflict          409: changed since it was read, or a precondition did not hold
    │   ├── AlreadyExists     409
    │   ├── Gone              410: a resourceVersion or continue token is too old
    │   ├── Invalid           422
    │   ├── TooManyRequests   429, with `.retry_after` when the server named a time
    │   └── Unavailable       5xx
    ├── Unreachable           no complete response; `.sent`: the request may have been received
    ├── Malformed             a response that cannot be decoded as the requested type
    ├── CredentialsError      kubeconfig, token, certificate or plugin; the message says what to do
    └── Bug                   "cannot happen"; ends one reconcile, never the process

`error.unknown` is True when a write may have been applied: read the object before writing again.
"""

# ruff: noqa: N818  # these read well without the suffix Error

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class MantaError(Exception):
    """Base of everything that Manta raises on purpose."""

    unknown: bool = False
    """The write may have been applied although no success was reported."""


class CredentialsError(MantaError):
    """The server or the user is not configured, or its credentials do not work. The message says what to do."""


class Malformed(MantaError):
    """The response cannot be decoded as the requested type."""


class Unreachable(MantaError):
    """No complete response came back."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
        """False only if the server cannot have received the whole request."""
        self.unknown = sent


class ApiError(MantaError):
    """The API server answered with an error; the fields are those of its Status object."""

    def __init__(
        self, status: int, reason: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"{message} ({status} {reason})" if reason else f"{message} ({status})")
        self.status = status
        self.reason = reason
        self.message = message
        self.details: Mapping[str, Any] = details or {}

    @property
    def causes(self) -> tuple[Mapping[str, Any], ...]:
        """The invalid fields, if the server listed them."""
        return tuple(self.details.get("causes") or ())

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the client should retry; None if the server named none."""
        seconds = self.details.get("retryAfterSeconds")
        return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


class BadRequest(ApiError):
    pass


class Unauthorized(ApiError):
    pass


class Forbidden(ApiError):
    pass


class NotFound(ApiError):
    @property
    def of_type(self) -> bool:
        """The resource type is not served at all: a CRD is missing, not an object."""
        return not self.details.get("name")


class Conflict(ApiError):
    pass


class AlreadyExists(ApiError):
    pass


class Gone(ApiError):
    pass


class Invalid(ApiError):
    pass


class TooManyRequests(ApiError):
    @property
    def of_load(self) -> bool:
        """True when the server rejected the request before reading it, because of load. A 429 with a reason is
        about the request: a kind that is not served yet, a disruption budget, too many Events."""
        return not self.reason


class Unavailable(ApiError):
    unknown = True
    """A 5xx can come from a timeout or a load balancer after the write was applied."""


BY_REASON: Mapping[str, type[ApiError]] = {
    "BadRequest": BadRequest,
    "Unauthorized": Unauthorized,
    "Forbidden": Forbidden,
    "NotFound": NotFound,
    "Conflict": Conflict,
    "AlreadyExists": AlreadyExists,
    "Gone": Gone,
    "Expired": Gone,
    "Invalid": Invalid,
    "TooManyRequests": TooManyRequests,
    "InternalError": Unavailable,
    "ServerTimeout": Unavailable,
    "Timeout": Unavailable,
    "ServiceUnavailable": Unavailable,
}

BY_CODE: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class _Status(msgspec.Struct, gc=False):
    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


def error_from(
    status_code: int, headers: Mapping[str, str], body: bytes, note: str = ""
) -> ApiError:
    """The ApiError of a response, by the reason in its Status, else by its status code.

    The body need not be a Status: proxies and load balancers answer with HTML or plain text.
    `note` is appended to the message.
    """
    status = _read_status(body)
    details = dict(status.details or {})
    if "retryAfterSeconds" not in details and headers.get("retry-after", "").isdigit():
        details["retryAfterSeconds"] = int(headers["retry-after"])
    code = status.code or status_code
    kind = BY_REASON.get(status.reason) or BY_CODE.get(code)
    if kind is None:
        kind = Unavailable if code >= 500 else ApiError
    message = status.message or _plain(body) or f"the API server answered {status_code}"
    return kind(code, status.reason, f"{message}; {note}" if note else message, details)


def error_from_status(status: bytes | msgspec.Raw) -> ApiError:
    """The ApiError of an ERROR event: a Status inside a watch stream."""
    return error_from(500, {}, bytes(status))


def _read_status(body: bytes) -> _Status:
    try:
        status = msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        return _Status()
    return status if status.kind == "Status" else _Status()


def _plain(body: bytes) -> str:
    """The beginning of a body that is no Status, in one line."""
    return " ".join(body[:400].decode(errors="replace").split())[:200]
