"""What the pages on security promise is held by tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.testnames import names_of_tests

ROOT = Path(__file__).parents[2]
FINDINGS = ROOT / "docs/internals/security-findings.md"
GUIDE = ROOT / "docs/guide/security.md"
NUMBERS = [*(f"X{number}" for number in range(1, 22)), "P1", "P2"]


def rows(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its first two lines."""
    text = page.read_text().partition(f"## {heading}\n")[2]
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.parametrize("page", [FINDINGS, GUIDE], ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", page.read_text()))
    assert named
    assert named - names_of_tests() == set()


def test_every_finding_has_a_row_and_every_row_a_test() -> None:
    found = rows(FINDINGS, "Findings")
    assert {re.match(r"[XP]\d+", one[0]).group() for one in found} == set(NUMBERS)
    assert [one[0] for one in found if "`test_" not in one[2]] == []


def test_every_threat_names_what_stops_it_and_a_test_or_that_nothing_does() -> None:
    found = rows(GUIDE, "Threat model")
    assert found
    open_rows = [one for one in found if "`test_" not in one[3]]
    assert [one for one in open_rows if not one[2].startswith("**Not promised")] == []


def test_the_tally_adds_up() -> None:
    *areas, total = [
        [int(cell.replace("*", "").replace(",", "")) for cell in one[1:4]]
        for one in rows(FINDINGS, "Cases tried")
    ]
    assert [sum(column) for column in zip(*areas, strict=True)] == total
    assert all(tried == held + left for tried, held, left in (*areas, total))
