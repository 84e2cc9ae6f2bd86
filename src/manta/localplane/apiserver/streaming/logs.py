"""The log subresource of Pods."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

from manta.api.times import parse_time
from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.status_errors import bad_request
from manta.localplane.apiserver.streaming.connector import (
    ContainerUnavailable,
    LogOptions,
    NodeConnector,
)
from manta.localplane.apiserver.streaming.targets import choose_container, find_pod

_INT64 = 2**63 - 1
_MAX_SECONDS = 10**9
"""Larger values of `sinceSeconds` are lowered to this: no log is older."""


async def read_logs(core: Core, node: Callable[[], NodeConnector], call: Call) -> HttpResponse:
    """Return a response that streams the log. Raises StatusError."""
    request, route = call.request, call.route
    pod = find_pod(core, route.namespace, route.name)
    container = choose_container(pod, request.param("container"))
    options = _log_options(request)
    if not (pod.get("spec") or {}).get("nodeName"):
        return HttpResponse(204, b"", content_type="text/plain")  # not scheduled: as kube-apiserver
    try:
        lines = await node().logs(route.namespace, route.name, container, options)
    except ContainerUnavailable as error:
        raise bad_request(str(error)) from None
    return HttpResponse(200, _limited(lines, options.limit_bytes), content_type="text/plain")


def _log_options(request: HttpRequest) -> LogOptions:
    since_time = request.param("sinceTime")
    since_seconds = _count(request, "sinceSeconds")
    if since_time:
        if since_seconds is not None:
            raise bad_request("at most one of sinceTime and sinceSeconds may be specified")
        try:
            parse_time(since_time)
        except ValueError as error:
            why = f"must be a time as in RFC 3339: {error}"
            raise bad_request(f'sinceTime: Invalid value: "{since_time[:64]}": {why}') from None
    return LogOptions(
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        timestamps=request.flag("timestamps"),
        tail_lines=_count(request, "tailLines"),
        since_seconds=None if since_seconds is None else min(since_seconds, _MAX_SECONDS),
        since_time=since_time,
        limit_bytes=_count(request, "limitBytes"),
    )


def _count(request: HttpRequest, name: str) -> int | None:
    text = request.param(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        why = "must be a non-negative number"
        raise bad_request(f'{name}: Invalid value: "{text[:64]}": {why}')
    if len(text) > 19 or int(text) > _INT64:
        raise bad_request(f'{name}: Invalid value: "{text[:64]}": value out of range')
    return int(text)


async def _limited(lines: AsyncIterator[bytes], limit: int | None) -> AsyncIterator[bytes]:
    """At most `limit` bytes. Closes `lines` also when the client goes before their end."""
    left = limit
    closing = getattr(lines, "aclose", None)
    try:
        async for chunk in lines:
            if left is None:
                yield chunk
                continue
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return
    finally:
        if closing is not None:
            with contextlib.suppress(RuntimeError):  # the generator is running: it ends by itself
                await closing()
