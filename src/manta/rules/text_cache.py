"""A cache of parsed texts with a bounded size.

Parsing YAML is slow, and every reconcile of an object asks for the same text. A cache bounded by
entries alone would keep a thousand texts of a megabyte each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final, Generic, TypeVar

R = TypeVar("R")

MAX_TEXT: Final = 512 * 1024
"""Characters of one YAML field that the operator reads."""
LARGE_TEXT: Final = 64 * 1024
"""Characters from which on a text is parsed off the event loop (`runtime/offload.py`)."""
_CACHED_CHARACTERS: Final = 4 * 1024 * 1024
_OVERHEAD: Final = 1024
"""Charged for each text besides its length, so that a million empty ones are not free."""


class TextParser(Generic[R]):
    """A function of one text whose results are remembered. May be called from several threads."""

    def __init__(self, parse: Callable[[str], R], limit: int = _CACHED_CHARACTERS) -> None:
        self.__doc__ = parse.__doc__
        self._parse = parse
        self._limit = limit
        self._size = 0
        self._known: OrderedDict[str, R] = OrderedDict()
        self._lock = Lock()

    def __call__(self, text: str) -> R:
        with self._lock:
            if text in self._known:
                self._known.move_to_end(text)
                return self._known[text]
        result = self._parse(text)
        with self._lock:
            if text not in self._known:
                self._known[text] = result
                self._size += len(text) + _OVERHEAD
            while self._size > self._limit and len(self._known) > 1:
                dropped, _ = self._known.popitem(last=False)
                self._size -= len(dropped) + _OVERHEAD
        return result

    def knows(self, text: str) -> bool:
        return text in self._known

    @property
    def size(self) -> int:
        """Characters that are remembered, overhead included."""
        return self._size
