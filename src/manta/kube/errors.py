"""What can go wrong between us and an API server, as one tree.

    MantaError
    ├── ApiError              the API server said no
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
    ├── Unreachable           nothing, or half an answer; `.sent` when the request had left us
    ├── Malformed             an answer that cannot be read as what was asked for
    ├── CredentialsError      kubeconfig, token, certificate or plugin: names the cure
    └── Bug                   "cannot happen"; ends the round, never the process

`error.unknown` is the question that a writer must ask: True says that the write may have been
applied, so look before you act again.
"""

# ruff: noqa: N818  # the names are the tree that is drawn here, and read well without a suffix

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class MantaError(Exception):
    """Everything that we raise on purpose."""

    unknown: bool = False
    """The write may have been applied although no success was reported."""


class Bug(MantaError):
    """Something that cannot happen, did."""


class CredentialsError(MantaError):
    """We do not know the server, or cannot prove who we are. The message names the cure."""


class Malformed(MantaError):
    """The server answered, but not with what was asked for."""


class Unreachable(MantaError):
    """No complete answer came back."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
        """True unless it is proven that the server never saw the whole request."""
        self.unknown = sent


class ApiError(MantaError):
    """The API server refused, with the fields of its Status object."""

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
        """Field by field what was wrong, when the server said so."""
        return tuple(self.details.get("causes") or ())

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the server wants to be asked again."""
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
        """Turned away unseen: the server says so in plain words. With a reason it is about what was
        asked: a kind that is not served yet, a disruption budget, too many Events."""
        return not self.reason


class Unavailable(ApiError):
    unknown = True
    """A 5xx can come from a timeout, or a load balancer, after the write was applied."""


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
    """The error that this answer means: its reason first, its code where it gives no reason.

    The body need not be a Status: proxies and load balancers answer with HTML or plain text.
    `note` is what we know beside it.
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
    """The error inside a watch stream: a Status object behind an HTTP 200."""
    return error_from(500, {}, bytes(status))


def _read_status(body: bytes) -> _Status:
    try:
        status = msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        return _Status()
    return status if status.kind == "Status" else _Status()


def _plain(body: bytes) -> str:
    """The first words of an answer that is no Status, fit for one line of a log."""
    return " ".join(body[:400].decode(errors="replace").split())[:200]
