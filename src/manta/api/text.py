"""Makes foreign text safe to show: one line of bounded length, without credentials.

For unchecked text, such as a dashboard's response or an exception, that goes to a condition, an Event or a
terminal.
"""

from __future__ import annotations

import re
from typing import Final

MAX_SHOWN: Final = 300
"""Characters of foreign text in one message."""

_CREDENTIALS: Final = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{4,}"), r"\1 <redacted>"),
    (re.compile(r"(://)[^/\s@]{1,256}@"), r"\1<redacted>@"),
    (re.compile(r"\beyJ[\w-]{4,}\.[\w-]{4,}\.[\w-]*"), "<redacted>"),
    (
        re.compile(
            r"(?i)\b([\w-]{0,64}(?:token|passw(?:or)?d|secret|api-?key))([\"']?\s*[=:]\s*)\S+"
        ),
        r"\1\2<redacted>",
    ),
)


def one_line(text: str, limit: int = MAX_SHOWN) -> str:
    """At most `limit` printable characters of `text`, on one line."""
    window = text[: 4 * limit]  # the rest may be huge, and is cut anyway
    printable = "".join(one if one.isprintable() else " " for one in window)
    joined = " ".join(printable.split())
    return (
        joined if len(joined) <= limit and len(text) <= len(window) else joined[: limit - 1] + "…"
    )


def without_credentials(text: str, limit: int = MAX_SHOWN) -> str:
    """One line in which tokens, passwords and the user part of URLs are replaced by `<redacted>`."""
    # Search more than is shown, so that a credential is not cut in two before it is recognised.
    line = one_line(text, 4 * limit)
    for pattern, shown in _CREDENTIALS:
        line = pattern.sub(shown, line)
    return one_line(line, limit)


def bytes_text(count: float) -> str:
    """1536 -> '1.5 KiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
