"""The HTTPS server that API servers send AdmissionReviews to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from manta.admission.review import InvalidReview
from manta.httpserver.address import Address
from manta.httpserver.handler import Handler
from manta.httpserver.limits import Limits
from manta.httpserver.messages import HttpRequest, HttpResponse, text_response
from manta.httpserver.server import HttpService

_MIB = 1024 * 1024
LIMITS = Limits(
    body_bytes=8 * _MIB,  # an object has at most 1.5 MiB, and an update sends two
    request_seconds=10.0,  # API servers give a webhook 10 s by default
    anonymous_request_seconds=10.0,
    idle_seconds=120.0,
    anonymous_idle_seconds=120.0,  # API servers keep a few connections and reuse them
    connections=256,
    anonymous_connections=256,
    anonymous_connections_per_address=256,
    client_bytes=64 * _MIB,
    total_bytes=64 * _MIB,
)
_SMALL = 256 * 1024
"""Bytes of a review; larger ones are validated in a thread."""

Review = Callable[[bytes], bytes]
"""Answers an AdmissionReview; raises InvalidReview."""


class ReviewServer(HttpService):
    def __init__(
        self, address: Address, context: ssl.SSLContext, review: Review, limits: Limits = LIMITS
    ) -> None:
        super().__init__(address, _ReviewHandler(review), limits, context)


class _ReviewHandler(Handler):
    def __init__(self, review: Review) -> None:
        self._review = review

    async def handle(self, request: HttpRequest) -> HttpResponse:
        if request.method == "GET" and request.path in ("/healthz", "/readyz"):
            return text_response(200, "ok")
        if request.method != "POST":
            return text_response(404, "reviews are sent with POST")
        try:
            if len(request.body) > _SMALL:
                return HttpResponse(200, await asyncio.to_thread(self._review, request.body))
            return HttpResponse(200, self._review(request.body))
        except InvalidReview as error:
            return text_response(400, str(error))
