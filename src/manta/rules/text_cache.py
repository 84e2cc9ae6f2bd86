"""Parses YAML fields of objects, with a cache of bounded size.

Parsing YAML is slow, and every reconcile of an object asks for the same text. A cache bounded by
entries alone would keep a thousand texts of a megabyte each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from manta.api.documents import limits
from manta.api.documents.reader import read_yaml
from manta.rules.validation.violation import Violation

R = TypeVar("R")

MAX_TEXT: Final = 512 * 1024
"""The longest YAML field that the operator parses, in characters."""
LARGE_TEXT_CHARACTERS: Final = 64 * 1024
"""Longer texts are parsed in a thread (`runtime/offload.py`)."""
_CACHED_CHARACTERS: Final = 4 * 1024 * 1024
_OVERHEAD_CHARACTERS: Final = 1024
"""Added to the length of each text, so that many empty texts count too."""


def read_field(field: str, text: str) -> Any:
    """The YAML value; None if `text` is empty or only comments; a Violation if it is invalid."""
    if len(text) > MAX_TEXT:
        return Violation(field, text[:100], f"has {len(text)} characters; at most {MAX_TEXT}")
    try:
        return read_yaml(text, limits.FIELD, duplicates=[])  # the last wins, as in KubeRay
    except limits.DocumentError as error:
        return Violation(field, text, f"is not valid YAML: {error}")


class TextParser(Generic[R]):
    """A parser with a cache. Thread-safe."""

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
                self._size += len(text) + _OVERHEAD_CHARACTERS
            while self._size > self._limit and len(self._known) > 1:
                dropped, _ = self._known.popitem(last=False)
                self._size -= len(dropped) + _OVERHEAD_CHARACTERS
        return result

    def knows(self, text: str) -> bool:
        return text in self._known

    @property
    def size(self) -> int:
        """Cached characters, overhead included."""
        return self._size
