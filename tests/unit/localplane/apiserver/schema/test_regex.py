from __future__ import annotations

import pytest

from manta.localplane.apiserver.schema.regex import BadPatternError, compile_pattern


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
def test_patterns_mean_what_re2_means(pattern, text, found):
    assert (compile_pattern(pattern).search(text) is not None) is found


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", "[[:nope:]]"])
def test_what_re2_does_not_know_is_refused(pattern):
    with pytest.raises(BadPatternError):
        compile_pattern(pattern)
