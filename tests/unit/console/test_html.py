"""Markup is escaped by construction."""

from __future__ import annotations

import pytest

from manta.console.html import EMPTY, Html, join, raw, tag


def test_text_is_escaped_in_children_and_attributes() -> None:
    made = tag("a", "<script>&", title='"><script>')
    assert made == '<a title="&quot;&gt;&lt;script&gt;">&lt;script&gt;&amp;</a>'


def test_markup_of_other_tags_is_kept() -> None:
    assert tag("p", tag("b", "x"), " & ", [tag("i"), None]) == "<p><b>x</b> &amp; <i></i></p>"


def test_a_text_that_looks_like_markup_is_still_text() -> None:
    assert not isinstance("<b>" + "x", Html)
    assert join("<b>x") == "&lt;b&gt;x"


def test_attributes_lose_their_underscores() -> None:
    assert tag("tr", class_="a", data_x=1, hidden=True, title=None) == (
        '<tr class="a" data-x="1" hidden></tr>'
    )


@pytest.mark.parametrize(
    "to",
    [
        "javascript:alert(1)", "data:text/html,x", "//evil.example", "x", "/\\evil.example",
        "/\t/evil.example", "https:\\evil.example",
    ],
)  # fmt: skip
def test_a_link_that_could_run_a_script_is_refused(to: str) -> None:
    with pytest.raises(ValueError, match="neither an address of this server"):
        tag("a", "x", href=to)


def test_a_tag_without_content_is_not_closed() -> None:
    assert tag("input", name="q") == '<input name="q">'
    assert join(None) is EMPTY
    assert raw("<hr>") == "<hr>"
