"""Patterns are RE2 and linear. `go_regexp.json` is what Go 1.26 answers: a match, or an error."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from manta.localplane.apiserver.schema.regex import (
    BadPatternError,
    compile_in_python,
    compile_pattern,
)

FACTS = json.loads((Path(__file__).parent / "go_regexp.json").read_text())
needs_re2 = pytest.mark.skipif(
    find_spec("re2") is None, reason="there is no google-re2 wheel for this system"
)


@needs_re2
@pytest.mark.parametrize(("pattern", "text", "wanted"), FACTS)
def test_a_pattern_is_taken_refused_and_matched_as_by_go(pattern, text, wanted) -> None:
    """P1: 13 of 20 patterns that only RE2, or only Python, knows were judged wrongly."""
    try:
        found: bool | str = compile_pattern(pattern).search(text) is not None
    except BadPatternError as error:
        found = str(error)
    assert found == wanted


@needs_re2
def test_matching_takes_linear_time() -> None:
    """P1: with Python's engine this takes longer than the age of the universe."""
    assert compile_pattern("^(a+)+$").search("a" * 10_000 + "!") is None
    assert compile_pattern("^(a|a)*$").search("a" * 10_000 + "!") is None
    assert compile_pattern("(x+x+)+y").search("x" * 10_000) is None


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        (r"^a\z", "a", True),
        ("[$]", "$", True),
        ("^[[:alpha:]_]+$", "ab_", True),
        ("^[[:digit:]]+$", "1a", False),
        ("(?<x>a)b", "ab", True),
        (r"^\d+$", "٣", False),
        ("^[^]]$", "a", True),
        ("[[]", "[", True),
    ],
)
def test_patterns_mean_what_re2_means(pattern, text, found) -> None:
    assert (compile_pattern(pattern).search(text) is not None) is found
    assert (compile_in_python(pattern).search(text) is not None) is found


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", "[[:nope:]]"])
def test_what_re2_does_not_know_is_refused(pattern) -> None:
    for compile_ in (compile_pattern, compile_in_python):
        with pytest.raises(BadPatternError, match="error parsing regexp"):
            compile_(pattern)
