"""What a tab must change."""

from __future__ import annotations

from manta.console.html import tag
from manta.console.stream import changes, digest, message


def test_an_equal_page_changes_nothing() -> None:
    assert changes({"a": "x", "t": {"1": "r"}}, {"a": "x", "t": {"1": "r"}}) == {}


def test_only_rows_that_differ_are_sent() -> None:
    before = {"t": {"1": "one", "2": "two"}}
    assert changes(before, {"t": {"1": "one", "2": "TWO"}}) == {"t": {"rows": {"2": "TWO"}}}


def test_a_new_order_is_sent_with_the_new_row() -> None:
    found = changes({"t": {"1": "one", "2": "two"}}, {"t": {"3": "three", "1": "one"}})
    assert found == {"t": {"rows": {"3": "three"}, "order": ["3", "1"]}}


def test_a_message_is_one_line_of_json() -> None:
    assert message({"a": tag("p", "x\n\ny")}) == b'data: {"a":"<p>x\\n\\ny</p>"}\n\n'


def test_the_digest_differs_when_a_row_does() -> None:
    assert digest({"t": {"1": "a"}}) != digest({"t": {"1": "b"}})
