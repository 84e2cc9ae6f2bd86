"""The table of differences from KubeRay is the page's table, and each row is proved by a test."""

from __future__ import annotations

import pytest
from tools.docs.differences import ROWS, SECTION, Row, text

from support.testnames import names_of_tests


def test_the_page_holds_the_table() -> None:
    page = SECTION.page.read_text()
    assert page == SECTION.replaced(page, text()), "run `make docs` and commit the page"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_each_difference_is_proved_by_a_test_that_exists(row: Row) -> None:
    assert row.test in names_of_tests(), f"{row.id} names {row.test}, which is nowhere under tests/"


def test_each_difference_has_an_id_of_its_own_and_a_reason() -> None:
    ids = [row.id for row in ROWS]
    assert len(set(ids)) == len(ids)
    assert [row.id for row in ROWS if not row.why] == []
