"""The log of a job in the dashboard's reply, which is JSON, decoded as it arrives: it may be gigabytes long. Pure."""

from __future__ import annotations

import json
import re
from codecs import getincrementaldecoder
from typing import Final

_BEGIN: Final = re.compile(r'\s*\{\s*"logs"\s*:\s*(?:"|null)')
_LONGEST_BEGIN: Final = 64
_LONGEST_REST: Final = 12
"""Characters of a surrogate pair, which is the longest escape."""
_WHOLE: Final = re.compile(r'(?:[^"\\]++|\\(?:[^u]|u[0-9a-fA-F]{4}))*+')
"""Characters of a string, without an escape whose end is still to come."""
_HALF: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")
"""The first half of a character that JSON writes as two escapes."""


class LogReply:
    """Decodes `{"logs": "..."}` piece by piece."""

    def __init__(self) -> None:
        self._characters = getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._began = False
        self.ended = False

    def feed(self, piece: bytes) -> bytes:
        """What the log has more with this piece of the reply. Raises ValueError if the reply is another one."""
        if self.ended:
            return b""
        self._held += self._characters.decode(piece)
        return self._text() if self._began or self._begins() else b""

    def _begins(self) -> bool:
        found = _BEGIN.match(self._held)
        if found is None:
            if len(self._held) < _LONGEST_BEGIN:
                return False
            raise ValueError(f"the reply is not a log: {self._held[:_LONGEST_BEGIN]!r}")
        self._began, self.ended = True, found[0].endswith("null")
        self._held = self._held[found.end() :]
        return not self.ended

    def _text(self) -> bytes:
        """The longest whole part of what has come."""
        found = _WHOLE.match(self._held)
        end = found.end() if found is not None else 0
        self.ended = self._held[end : end + 1] == '"'
        if not self.ended and (half := _HALF.search(self._held, max(0, end - 6), end)):
            end = half.start()
        part, self._held = self._held[:end], self._held[end:]
        if not self.ended and len(self._held) > _LONGEST_REST:
            raise ValueError(f"the reply is invalid JSON at {self._held[:_LONGEST_REST]!r}")
        return str(json.loads(f'"{part}"', strict=False)).encode("utf-8", "replace")
