"""Odd requests to the console: no error of ours, no script of a stranger's in a page, bounded memory.

MANTA_FUZZ_REQUESTS=20000 sends more of them.
"""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from collections import Counter
from collections.abc import AsyncGenerator
from typing import cast

from manta.api.ray.resources import RAY_CLUSTERS
from manta.httpserver.messages import HttpResponse
from support.console import HOST, running_console
from support.console_requests import SCRIPT, odd_requests

REQUESTS = int(os.environ.get("MANTA_FUZZ_REQUESTS", "300"))
MEMORY = 64 * 1024 * 1024
CLUSTER = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "demo", "annotations": {"note": SCRIPT}},
    "spec": {
        "headGroupSpec": {
            "rayStartParams": {},
            "template": {"spec": {"containers": [{"name": "ray", "image": SCRIPT}]}},
        }
    },
}


async def beginning(response: HttpResponse) -> bytes:
    """The body, or the first part of one that goes on for ever."""
    if isinstance(response.body, bytes):
        return response.body
    body = cast("AsyncGenerator[bytes]", response.body)
    try:
        async with asyncio.timeout(0.2):
            return await anext(body)
    except (TimeoutError, StopAsyncIteration):
        return b""
    finally:
        await body.aclose()


async def test_odd_requests_find_no_error_and_run_no_script() -> None:
    found: Counter[int] = Counter()
    async with running_console() as console:
        await console.plane.client.create(RAY_CLUSTERS, "default", CLUSTER)
        tracemalloc.start()
        try:
            for request in odd_requests(1, REQUESTS, HOST, console.cookie):
                response = await console.handler.handle(request)
                body = await beginning(response)
                about = (request.method, request.path, request.query, request.headers)
                assert response.status < 500, (response.status, body[:300], about)
                if response.content_type.startswith("application/json"):
                    # A Status names what was asked for; no browser takes it for a page, or runs anything in it.
                    sent = dict((*console.handler.default_headers, *response.headers))
                    assert "default-src 'none'" in sent["Content-Security-Policy"], about
                    assert sent["X-Content-Type-Options"] == "nosniff", about
                else:
                    assert SCRIPT.encode() not in body, about
                    assert b"onerror=alert(1)>" not in body, about
                heads = "".join(f"{name}{value}" for name, value in response.headers)
                assert not {"\r", "\n", "\0"} & set(heads), about
                found[response.status] += 1
            assert tracemalloc.get_traced_memory()[1] < MEMORY
        finally:
            tracemalloc.stop()
    assert {200, 401, 404} <= set(found), found
