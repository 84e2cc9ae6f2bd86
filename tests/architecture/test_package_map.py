"""The map in ARCHITECTURE.md is that of the code, and leads to files and names that exist."""

from __future__ import annotations

import pytest
from tools.docs.package_map import CHANGES, PACKAGES, SECTION, Change, text
from tools.docs.pages import ROOT

SOURCE = ROOT / "src/manta"


def test_the_page_has_the_map() -> None:
    page = SECTION.page.read_text()
    assert page == SECTION.replaced(page, text()), "run `make docs` and commit the page"


def test_every_package_is_on_the_map() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert {name.partition(".")[0] for name in PACKAGES} == packages


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.what)
def test_a_change_starts_at_a_file_and_a_name_that_exist(change: Change) -> None:
    assert change.name in (ROOT / change.path).read_text()
