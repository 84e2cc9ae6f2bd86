"""Regular expressions of schemas and rules: RE2 (linear time), with the errors of Go's regexp."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Protocol

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
    """A compiled pattern; `match[0]` is the matched text."""

    def search(self, text: str, /) -> Any: ...
    def finditer(self, text: str, /) -> Iterator[Any]: ...


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern:
    """Return the compiled pattern. Raises BadPatternError for what Go's regexp refuses."""
    if re2 is None:
        return compile_in_python(pattern)
    if any(found[1] == "C" for found in _ANY_BYTE.finditer(pattern)):
        raise BadPatternError(r"error parsing regexp: invalid escape sequence: `\C`")
    try:
        re2.compile(pattern, _options(captures=True))  # checks the names of groups
        compiled: Pattern = re2.compile(pattern, _options(captures=False))
    except re2.error as error:
        raise BadPatternError(_go_message(pattern, error)) from None
    return compiled


def _options(*, captures: bool) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = not captures  # RE2 is faster without groups
    return options


def _go_message(pattern: str, error: Exception) -> str:
    message = error.args[0]
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    problem, _, what = text.partition(": ")
    if what in {"(?<=", "(?<!"}:
        problem, what = "invalid named capture group", pattern[pattern.index(what) :]
    return f"error parsing regexp: {_GO_WORDS.get(problem, problem)}: `{what}`"


_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": "\\t ",
    "digit": "0-9",
    "lower": "a-z",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_OUTSIDE = re.compile(r"\\.|\$|\[\^?\]?|\(\?<(?![=!])|.", re.DOTALL)
_INSIDE = re.compile(r"\\.|\[:\^?[a-z]+:\]|.", re.DOTALL)
_SPECIAL_IN_PYTHON = frozenset("[&~|")


class BadPatternError(ValueError):
    """A pattern that RE2 refuses, with the message of Go's regexp."""


def compile_in_python(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern. Raises BadPatternError for what RE2 or Python refuses."""
    try:
        return re.compile(_translate(pattern), re.ASCII)
    except re.error as error:
        raise BadPatternError(_re2_message(pattern, error)) from None


def _re2_message(pattern: str, error: re.error) -> str:
    for theirs, ours in _WORDS.items():
        if error.msg.startswith(theirs):
            return f"error parsing regexp: {ours}: `{pattern}`"
    return f"error parsing regexp: {error}"


_WORDS = {
    "missing )": "missing closing )",
    "unbalanced parenthesis": "unexpected )",
    "unterminated character set": "missing closing ]",
    "nothing to repeat": "missing argument to repetition operator",
    "multiple repeat": "invalid nested repetition operator",
    "bad character range": "invalid character class range",
}


def _translate(pattern: str) -> str:
    r"""RE2: `$` and `\z` match only at the end, POSIX classes exist, look-around does not."""
    if re.search(r"\(\?<?[=!]", pattern):
        raise BadPatternError(
            "error parsing regexp: invalid or unsupported Perl syntax: look-around"
        )
    parts: list[str] = []
    at, in_class = 0, False
    while at < len(pattern):
        found = (_INSIDE if in_class else _OUTSIDE).match(pattern, at)
        assert found is not None
        symbol = found[0]
        parts.append(_inside(symbol) if in_class else _outside(symbol))
        in_class = symbol != "]" if in_class else symbol.startswith("[")
        at = found.end()
    return "".join(parts)


def _outside(symbol: str) -> str:
    if symbol in {"$", "\\z"}:
        return "\\Z"
    return "(?P<" if symbol == "(?<" else symbol


def _inside(symbol: str) -> str:
    if symbol.startswith("[:"):
        return _posix_class(symbol)
    return f"\\{symbol}" if symbol in _SPECIAL_IN_PYTHON else symbol


def _posix_class(symbol: str) -> str:
    members = _POSIX.get(symbol[2:-2].removeprefix("^"))
    if members is None or symbol.startswith("[:^"):
        raise BadPatternError(f"error parsing regexp: invalid character class range: `{symbol}`")
    return members
