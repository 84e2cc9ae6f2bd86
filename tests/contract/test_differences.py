"""The list of known differences is honest: every entry has a reason that somebody wrote down."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.recording import RECORDED, Known

REASONS = Path(__file__).parents[2] / "docs" / "internals" / "api-differences.md"


def entries() -> list[list[str]]:
    lines = Known.path.read_text().splitlines()
    return [line.split(" | ") for line in lines if line and not line.startswith("#")]


def reasons() -> dict[str, str]:
    """Heading by heading of the page, with what is written below it."""
    parts = REASONS.read_text().partition("## Single places")[2].split("\n### ")[1:]
    pairs = [part.partition("\n") for part in parts]
    return {heading.strip(): text.strip() for heading, _, text in pairs}


@pytest.mark.parametrize("entry", entries(), ids=" ".join)
def test_a_known_difference_has_a_written_reason(entry: list[str]) -> None:
    test, _, reason = entry
    assert (RECORDED / f"{test}.json").exists(), "no such test was recorded"
    assert reason not in {"", "open"}, "a bug is fixed, not listed"
    assert len(reasons().get(reason, "")) > 40, f"{REASONS.name} has no sentence on {reason!r}"


def test_every_written_reason_is_in_use() -> None:
    assert set(reasons()) == {reason for _, _, reason in entries()}
