"""Every known bug of the field that could be ours has a test that bears its number.

The numbers are those of the catalogue of KubeRay's bugs: C01 to C42 (Pods, caches, status, scale),
C43 to C54 (RayService), C55 to C68 (RayJob) and C69 to C96 (fault tolerance, deletion, ownership,
networking, multi-host, managers). `python -m tools.knownbugs.check` takes the guard of each away and
sees its tests go red.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.knownbugs.check import GUARDS

TESTS = Path(__file__).parents[1]
SOURCES = TESTS.parent / "src" / "manta"
NUMBERS = range(1, 97)

NOT_OURS: dict[int, str] = {}
"""Numbers without a test, each with its reason. None today."""


def _tested() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for name in re.findall(r"def (test(?:_c\d\d)+_\w+)", path.read_text()):
            numbers = re.match(r"test((?:_c\d\d)+)_", name)
            for number in re.findall(r"\d\d", numbers.group(1) if numbers else ""):
                found.setdefault(int(number), []).append(f"{path.name}::{name}")
    return found


def test_every_number_has_a_test_or_a_reason() -> None:
    tested = _tested()
    bare = [f"C{number:02}" for number in NUMBERS if number not in {*tested, *NOT_OURS}]
    assert bare == []


def test_every_number_has_a_guard_that_can_be_taken_away() -> None:
    assert {one.number for one in GUARDS} == set(NUMBERS)
    assert all(one.cuts for one in GUARDS)
    gone = [
        (one.number, file, words)
        for one in GUARDS
        for file, words, _ in one.cuts
        if words not in (SOURCES / file).read_text()
    ]
    assert gone == []


def test_no_reason_is_given_for_what_is_tested() -> None:
    assert NOT_OURS.keys().isdisjoint(_tested())
