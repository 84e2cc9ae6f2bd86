"""Parses integers in labels, annotations and start parameters."""

from __future__ import annotations

import re
from typing import Final

MAX_INT32: Final = 2**31 - 1
_INT: Final = re.compile(r"[+-]?[0-9]{1,64}")


def parse_int32(text: str) -> int | None:
    """Go's `strconv.ParseInt(text, 10, 32)`; None if it fails."""
    if not _INT.fullmatch(text):
        return None
    value = int(text)
    return value if -MAX_INT32 - 1 <= value <= MAX_INT32 else None


def parse_count(text: str) -> int | None:
    """A non-negative 32-bit integer; None if it is not one."""
    value = parse_int32(text)
    return value if value is not None and value >= 0 else None
