"""Refusals as Kubernetes' own Status objects, which every client of Kubernetes reads. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from manta.httpserver.messages import Headers, HttpResponse, json_response

REASONS: Final[Mapping[int, str]] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "AlreadyExists",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class RefusedError(Exception):
    """A request that the console itself refuses."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def status(code: int, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": REASONS.get(code, ""),
        "code": code,
    }


def refusal(code: int, message: str, headers: Headers = ()) -> HttpResponse:
    return json_response(code, status(code, message), headers)
