"""The pages that are written from the code are up to date."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.docs.generate import OUTPUT, PAGES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", PAGES)
def test_a_reference_page_tells_what_the_code_says(page: str) -> None:
    assert (OUTPUT / page).read_text() == PAGES[page](), "run `make docs` and commit the pages"


def test_the_links_of_the_pages_lead_somewhere() -> None:
    import re

    broken = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []
