"""Text of others, made safe to show."""

from __future__ import annotations

import pytest

from manta.api.text import one_line, without_credentials


def test_text_is_cut_and_kept_on_one_line() -> None:
    assert one_line("a\n\tb\x1b[31mc\u2028d") == "a b [31mc d"
    assert len(one_line("x" * 10_000, 50)) == 50
    assert one_line(" " * 10_000 + "x", 50) == "…"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abcdef.123", "Authorization: Bearer <redacted>"),
        ("GET http://u:p@host/x", "GET http://<redacted>@host/x"),
        ("token eyJhbGci.eyJzdWIi.c2ln ends", "token <redacted> ends"),
        ("RAY_AUTH_TOKEN=abc, next", "RAY_AUTH_TOKEN=<redacted> next"),
        ('{"password": "p"}', '{"password": <redacted>'),
        ("a plain cause", "a plain cause"),
    ],
)
def test_credentials_are_replaced(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


def test_a_credential_is_not_cut_in_two_before_it_is_found() -> None:
    assert "abcdefgh" not in without_credentials("x" * 295 + " Bearer abcdefghijkl", 310)
