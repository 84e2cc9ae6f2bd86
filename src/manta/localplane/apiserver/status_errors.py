"""Every error of the API server as a `Status` object, with the texts of kube-apiserver.

Clients branch on `reason`, `code` and `details.causes`, and people read `message`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from manta.httpserver.messages import HttpError, HttpResponse, json_response
from manta.localplane.apiserver.schema.causes import Cause, summary


class StatusError(Exception):
    """An error response. `App.handle` sends it to the client."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers
        self.metadata: Mapping[str, Any] = {}
        self.unknown: Sequence[str] = ()
        """Unknown fields, for which the client also gets warnings."""

    def status(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return body | {"code": self.code}

    def response(self) -> HttpResponse:
        return json_response(self.code, self.status(), self.headers)


def details(
    name: str, kind: str, group: str = "", causes: Sequence[Cause] = (), uid: str = ""
) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if name:
        shown["name"] = name
    if group:
        shown["group"] = group
    if kind:
        shown["kind"] = kind
    if uid:
        shown["uid"] = uid
    if causes:
        shown["causes"] = [cause.as_json() for cause in causes]
    return shown


def _qualified(kind: str, group: str) -> str:
    return f"{kind}.{group}" if group else kind


_HTTP_REASONS = {401: "Unauthorized", 403: "Forbidden", 413: "RequestEntityTooLarge"}


def from_http_error(error: HttpError) -> StatusError:
    """Return the Status of a request that the HTTP server refused."""
    if error.status == 429:
        return too_many_requests(error.message)
    if error.status == 500:
        return internal(error.message)
    reason = _HTTP_REASONS.get(error.status, "BadRequest")
    return StatusError(error.status, reason, error.message)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def forbidden(
    plural: str, group: str, name: str, why: str, causes: Sequence[Cause] = ()
) -> StatusError:
    named = f' "{name}"' if name else ""
    message = f"{_qualified(plural, group)}{named} is forbidden: {why}"
    return StatusError(403, "Forbidden", message, details(name, plural, group, causes))


def no_such_resource() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def not_found(plural: str, group: str, name: str) -> StatusError:
    message = f'{_qualified(plural, group)} "{name}" not found'
    return StatusError(404, "NotFound", message, details(name, plural, group))


def method_not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def not_acceptable(*, many: bool = False, shape: bool = False) -> StatusError:
    """`many`: of a list, which can also be watched; `shape`: JSON, but an unknown `as=`."""
    available = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    if shape:
        message = f"only the following media types are accepted: {available}"
        return StatusError(406, "NotAcceptable", message)
    if many:
        available += ", application/json;stream=watch"
        available += ", application/vnd.kubernetes.protobuf;stream=watch"
    message = f"406: Not Acceptable\n\nAvailable representations: {available}"
    return StatusError(406, "NotAcceptable", message, {})


def not_watchable() -> StatusError:
    """A watch was requested as YAML."""
    message = (
        "only the following media types are accepted: application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch"
    )
    return StatusError(406, "NotAcceptable", message)


def already_exists(plural: str, group: str, name: str) -> StatusError:
    message = f'{_qualified(plural, group)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details(name, plural, group))


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(plural: str, group: str, name: str, why: str = MODIFIED) -> StatusError:
    message = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}'
    return StatusError(409, "Conflict", message, details(name, plural, group))


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def object_too_large(plural: str, group: str, name: str, why: str) -> StatusError:
    """kube-apiserver answers with a bare 500 of etcd; a client can act on this one."""
    message = f'{_qualified(plural, group)} "{name}" is too large: {why}'
    return StatusError(413, "RequestEntityTooLarge", message, details(name, plural, group))


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return StatusError(415, "UnsupportedMediaType", message)


def unknown_patch_type() -> StatusError:
    return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """Lists all invalid fields at once."""
    message = f'{_qualified(kind, group)} "{name}" is invalid: {summary(causes)}'
    return StatusError(422, "Invalid", message, details(name, kind, group, causes))


def invalid_options(kind: str, *causes: Cause) -> StatusError:
    return invalid(kind, "meta.k8s.io", "", causes)


def invalid_patch(why: str, shown: str) -> StatusError:
    """The patched object cannot be decoded: kube-apiserver names no object here."""
    cause = Cause("FieldValueInvalid", f'Invalid value: "{shown}": {why}', "patch")
    message = f' "" is invalid: patch: {cause.message}'
    return StatusError(422, "Invalid", message, {"causes": [cause.as_json()]})


def patch_failed() -> StatusError:
    message = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", message, {})


def too_many_requests(message: str, causes: Sequence[Cause] = (), retry: int = 1) -> StatusError:
    shown: dict[str, Any] = {"causes": [cause.as_json() for cause in causes]} if causes else {}
    return StatusError(
        429,
        "TooManyRequests",
        message,
        shown | {"retryAfterSeconds": retry},
        (("Retry-After", str(retry)),),
    )


def internal(message: str) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {message}")


def plain_failure(message: str) -> StatusError:
    """A 500 without a reason: the answer of kube-apiserver to some malformed requests."""
    return StatusError(500, "", message)


def version_too_large(requested: int, current: int, *, retry: bool) -> StatusError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    shown: dict[str, Any] = {"causes": [cause]}
    if retry:
        shown["retryAfterSeconds"] = 1
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    return StatusError(504, "Timeout", message, shown, (("Retry-After", "1"),) if retry else ())
