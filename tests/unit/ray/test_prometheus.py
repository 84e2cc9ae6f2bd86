"""A query to Prometheus: one number, or why there is none; over HTTP as Prometheus answers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from manta.ray.prometheus import number_in, query_number
from manta.ray.transport import DirectTransport, Reply


def answer(kind: str, result: Any) -> Reply:
    body = {"status": "success", "data": {"resultType": kind, "result": result}}
    return Reply(200, json.dumps(body).encode())


def series(*values: str) -> list[dict[str, Any]]:
    return [{"metric": {}, "value": [1_700_000_000, value]} for value in values]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (answer("scalar", [1_700_000_000, "0.25"]), 0.25),
        (answer("vector", series("3")), 3.0),
        (answer("vector", series("+Inf")), float("inf")),
        (answer("vector", []), "the query returns 0 series; it must return one"),
        (answer("vector", series("1", "2")), "the query returns 2 series; it must return one"),
        (answer("scalar", []), "the query returns no number"),
        (answer("vector", [{"metric": {}}]), "the query returns no number"),
        (Reply(502, b"<html>"), "it answered 502, not in JSON"),
        (Reply(400, b'{"status": "error", "error": "bad_data"}'), "it answered 400: bad_data"),
        (Reply(200, b"[]"), "it answered 200: "),
    ],
)
def test_the_number_in_an_answer(reply: Reply, expected: float | str) -> None:
    assert number_in(reply) == expected


@contextmanager
def prometheus(reply: Reply) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the queries that it got."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that http.server calls
            parts = urlsplit(self.path)
            assert parts.path == "/api/v1/query"
            asked.extend(parse_qs(parts.query)["query"])
            self.send_response(reply.status)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: Any) -> None:
            """Not to the output of the tests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", asked
        finally:
            server.shutdown()


async def ask(address: str, query: str) -> float | str:
    transport = DirectTransport(5)
    try:
        return await query_number(transport, address, query)
    finally:
        await transport.close()


def test_a_query_arrives_as_it_was_written() -> None:
    query = 'sum(rate(bad_total{ray_cluster="a",code=~"5.."}[1m])) / 2 + 0 > bool 1 # &x=%20'
    with prometheus(answer("vector", series("0.5"))) as (address, asked):
        assert asyncio.run(ask(address, query)) == 0.5
    assert asked == [query]


def test_nobody_at_the_address_is_said() -> None:
    with prometheus(answer("scalar", [0, "1"])) as (address, _):
        pass
    found = asyncio.run(ask(address, "up"))
    assert isinstance(found, str)
    assert found
