"""The error for invalid user input, and hints for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_LONGEST_VALUE = 80


class UsageError(Exception):
    """The command cannot run as it was given; the text says what to do instead."""


class InvalidValue(UsageError, ValueError):  # noqa: N818  # as the errors of `kube`
    """A value of a program or a manifest that cannot be used; nothing was changed."""

    def __init__(self, field: str, value: Any, cure: str) -> None:
        shown = repr(value)
        shown = f"{shown[:_LONGEST_VALUE]}..." if len(shown) > _LONGEST_VALUE else shown
        super().__init__(f"{field}={shown}: {cure}")
        self.field = field
        """The parameter, or the path in the manifest."""
        self.value = value
        self.cure = cure
        """What is wrong, and what to write instead."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'get'?` for a word similar to a known one; else empty."""
    from difflib import get_close_matches

    spelled = {one.lower(): one for one in known}
    near = get_close_matches(word.lower(), spelled, n=1, cutoff=0.6)
    return f"; did you mean {spelled[near[0]]!r}?" if near else ""
