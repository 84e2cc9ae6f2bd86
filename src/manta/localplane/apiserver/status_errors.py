"""Every refusal of the server, in the words of the real one, as a `Status` object.

Clients branch on `reason`, `code` and `details.causes`, and people read `message`; so each text
stands here once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from manta.localplane.apiserver.messages import HttpResponse, json_response
from manta.localplane.apiserver.schema.causes import Cause, summary


class Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """Raised anywhere below the router, sent to the client by it."""

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
        """Fields that were not even known, of which the client is warned besides."""

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


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def unauthorized() -> Refusal:
    return Refusal(401, "Unauthorized", "Unauthorized")


def forbidden(
    plural: str, group: str, name: str, why: str, causes: Sequence[Cause] = ()
) -> Refusal:
    named = f' "{name}"' if name else ""
    message = f"{_qualified(plural, group)}{named} is forbidden: {why}"
    return Refusal(403, "Forbidden", message, details(name, plural, group, causes))


def no_such_resource() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def not_found(plural: str, group: str, name: str) -> Refusal:
    message = f'{_qualified(plural, group)} "{name}" not found'
    return Refusal(404, "NotFound", message, details(name, plural, group))


def method_not_allowed() -> Refusal:
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, {})


def not_acceptable(*, many: bool = False, shape: bool = False) -> Refusal:
    """`many`: a list, which could also be watched; `shape`: JSON, but of an unknown shape."""
    available = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    if shape:
        message = f"only the following media types are accepted: {available}"
        return Refusal(406, "NotAcceptable", message)
    if many:
        available += ", application/json;stream=watch"
        available += ", application/vnd.kubernetes.protobuf;stream=watch"
    message = f"406: Not Acceptable\n\nAvailable representations: {available}"
    return Refusal(406, "NotAcceptable", message, {})


def not_watchable() -> Refusal:
    """There is no stream of YAML."""
    message = (
        "only the following media types are accepted: application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch"
    )
    return Refusal(406, "NotAcceptable", message)


def already_exists(plural: str, group: str, name: str) -> Refusal:
    message = f'{_qualified(plural, group)} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, details(name, plural, group))


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(plural: str, group: str, name: str, why: str = MODIFIED) -> Refusal:
    message = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}'
    return Refusal(409, "Conflict", message, details(name, plural, group))


def expired(message: str) -> Refusal:
    return Refusal(410, "Expired", message)


def too_large(limit: int) -> Refusal:
    message = f"Request entity too large: limit is {limit}"
    return Refusal(413, "RequestEntityTooLarge", message)


def object_too_large(plural: str, group: str, name: str, why: str) -> Refusal:
    """The real server hands on etcd's bare 500; a client can act on this one."""
    message = f'{_qualified(plural, group)} "{name}" is too large: {why}'
    return Refusal(413, "RequestEntityTooLarge", message, details(name, plural, group))


def unsupported_media_type(accepted: Sequence[str]) -> Refusal:
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return Refusal(415, "UnsupportedMediaType", message)


def unknown_patch_type() -> Refusal:
    return Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> Refusal:
    """The one error that says everything that is wrong at once."""
    message = f'{_qualified(kind, group)} "{name}" is invalid: {summary(causes)}'
    return Refusal(422, "Invalid", message, details(name, kind, group, causes))


def invalid_options(kind: str, *causes: Cause) -> Refusal:
    return invalid(kind, "meta.k8s.io", "", causes)


def invalid_patch(why: str, shown: str) -> Refusal:
    """What a patch has made of the object cannot be read: the real server names no object here."""
    cause = Cause("FieldValueInvalid", f'Invalid value: "{shown}": {why}', "patch")
    message = f' "" is invalid: patch: {cause.message}'
    return Refusal(422, "Invalid", message, {"causes": [cause.as_json()]})


def patch_failed() -> Refusal:
    message = "the server rejected our request due to an error in our request"
    return Refusal(422, "Invalid", message, {})


def too_many_requests(message: str, causes: Sequence[Cause] = (), retry: int = 1) -> Refusal:
    shown: dict[str, Any] = {"causes": [cause.as_json() for cause in causes]} if causes else {}
    return Refusal(
        429,
        "TooManyRequests",
        message,
        shown | {"retryAfterSeconds": retry},
        (("Retry-After", str(retry)),),
    )


def internal(message: str) -> Refusal:
    return Refusal(500, "InternalError", f"Internal error occurred: {message}")


def plain_failure(message: str) -> Refusal:
    """A 500 without a reason: what the real server answers to some malformed requests."""
    return Refusal(500, "", message)


def version_too_large(asked: int, current: int, *, retry: bool) -> Refusal:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    shown: dict[str, Any] = {"causes": [cause]}
    if retry:
        shown["retryAfterSeconds"] = 1
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return Refusal(504, "Timeout", message, shown, (("Retry-After", "1"),) if retry else ())
