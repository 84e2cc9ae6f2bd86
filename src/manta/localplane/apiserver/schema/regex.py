"""Patterns of schemas and rules: RE2, in linear time, with the messages of Go's regexp package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Protocol

from manta.localplane.apiserver.schema.regex_fallback import BadPatternError, compile_in_python

try:
    import re2
except ImportError:  # no wheel for this system
    re2 = None

__all__ = ["BadPatternError", "Pattern", "compile_pattern"]

_GO_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
    "pattern too large - compile failed": "expression too large",
}
_ANY_BYTE = re.compile(r"\\Q.*?(?:\\E|$)|\\(.)", re.DOTALL)


class Pattern(Protocol):
    """What is used of a compiled pattern; a match gives the matched text as `found[0]`."""

    def search(self, text: str, /) -> Any: ...
    def finditer(self, text: str, /) -> Iterator[Any]: ...


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern:
    """Raises BadPatternError for what Go's regexp does not know."""
    if re2 is None:
        return compile_in_python(pattern)
    if any(found[1] == "C" for found in _ANY_BYTE.finditer(pattern)):
        raise BadPatternError(r"error parsing regexp: invalid escape sequence: `\C`")
    try:
        re2.compile(pattern, _options(captures=True))  # names of groups are only checked so
        compiled: Pattern = re2.compile(pattern, _options(captures=False))
    except re2.error as error:
        raise BadPatternError(_in_words_of_go(pattern, error)) from None
    return compiled


def _options(*, captures: bool) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = not captures  # what needs no groups is matched by the fast automaton
    return options


def _in_words_of_go(pattern: str, error: Exception) -> str:
    said = error.args[0]
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    problem, _, what = text.partition(": ")
    if what in {"(?<=", "(?<!"}:
        problem, what = "invalid named capture group", pattern[pattern.index(what) :]
    return f"error parsing regexp: {_GO_WORDS.get(problem, problem)}: `{what}`"
