"""The pages for probes and scrapers."""

from __future__ import annotations

import pytest

from manta.runtime.health import Address, Page, answer, ping

PAGES = {"/healthz": ping, "/readyz": lambda: Page(503, "not yet")}


def ask(line: str) -> bytes:
    return answer(f"{line}\r\nHost: x\r\n\r\n".encode(), PAGES)


def test_pages_are_found_by_path_whatever_the_query() -> None:
    assert ask("GET /healthz?verbose HTTP/1.1").endswith(b"\r\n\r\nok")
    assert ask("GET /healthz/ HTTP/1.1").startswith(b"HTTP/1.1 200")
    assert ask("GET /readyz HTTP/1.1").startswith(b"HTTP/1.1 503")


def test_head_has_no_body() -> None:
    assert ask("HEAD /healthz HTTP/1.0").endswith(b"\r\n\r\n")


def test_what_is_not_there_not_allowed_or_no_http_is_refused() -> None:
    assert ask("GET /etc/passwd HTTP/1.1").startswith(b"HTTP/1.1 404")
    assert ask("POST /healthz HTTP/1.1").startswith(b"HTTP/1.1 405")
    assert ask("nonsense").startswith(b"HTTP/1.1 400")


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
    with pytest.raises(ValueError, match="no address"):
        Address.parse(text)
