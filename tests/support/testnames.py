"""The names of all tests, for pages that name the test which proves what they say."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]


@cache
def names_of_tests() -> frozenset[str]:
    found: set[str] = set()
    for path in TESTS.rglob("*.py"):
        found |= set(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))
    return frozenset(found)
