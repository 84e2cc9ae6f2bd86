"""The pages for probes and scrapers."""

from __future__ import annotations

import asyncio

import pytest

from manta.httpserver.address import Address
from manta.httpserver.messages import text_response
from manta.runtime.health import ping
from support import page_server
from support.page_server import serving

PAGES = {"/healthz": ping, "/readyz": lambda _: text_response(503, "not yet")}


async def ask(line: str) -> bytes:
    async with serving(PAGES) as server:
        return await page_server.ask(server, f"{line}\r\nHost: x\r\n")


async def test_pages_are_found_by_path_whatever_the_query() -> None:
    assert (await ask("GET /healthz?verbose HTTP/1.1")).endswith(b"\r\n\r\nok")
    assert (await ask("GET /healthz/ HTTP/1.1")).startswith(b"HTTP/1.1 200")
    assert (await ask("GET /readyz HTTP/1.1")).startswith(b"HTTP/1.1 503")


async def test_head_has_no_body() -> None:
    assert (await ask("HEAD /healthz HTTP/1.0")).endswith(b"\r\n\r\n")


async def test_what_is_not_there_not_allowed_or_no_http_is_refused() -> None:
    assert (await ask("GET /etc/passwd HTTP/1.1")).startswith(b"HTTP/1.1 404")
    assert (await ask("POST /healthz HTTP/1.1")).startswith(b"HTTP/1.1 405")
    assert (await ask("nonsense")).startswith(b"HTTP/1.1 400")


async def test_no_body_is_read() -> None:
    async with asyncio.timeout(3):
        answer = await ask("POST /healthz HTTP/1.1\r\nContent-Length: 1000000")
    assert answer.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", Address(None, 8080)),
        ("127.0.0.1:1", Address("127.0.0.1", 1)),
        ("[::1]:8080", Address("::1", 8080)),
        ("0", None),
        ("", None),
    ],
)
def test_addresses_are_written_as_for_kuberay(text: str, address: Address | None) -> None:
    assert Address.parse(text) == address


@pytest.mark.parametrize("text", ["8080", ":x", "host", ":99999"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        Address.parse(text)
