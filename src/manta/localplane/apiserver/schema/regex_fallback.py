"""RE2 patterns in Python's dialect, for systems without google-re2.

Most patterns mean the same, but matching may take exponential time, and a few RE2 patterns are refused.
"""

from __future__ import annotations

import re

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
    """A pattern that RE2 refuses, in the words of Go's regexp package."""


def compile_in_python(pattern: str) -> re.Pattern[str]:
    """Raises BadPatternError for what RE2, or Python, does not know."""
    try:
        return re.compile(_translate(pattern), re.ASCII)
    except re.error as error:
        raise BadPatternError(_in_words_of_re2(pattern, error)) from None


def _in_words_of_re2(pattern: str, error: re.error) -> str:
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
    r"""RE2's `$` and `\z` mean the very end; it has POSIX classes; it has no look-around."""
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
