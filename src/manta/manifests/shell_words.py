"""Quotes a text as one word of a shell command, but leaves the user's expansions to the shell.

KubeRay writes parameters into the command unchanged. Manta does too if the shell reads them as one word. Other text
is quoted, except for its expansions: `$NAME`, `${NAME:-default}`, `$(command)`, `$((1024*1024))` and
`` `command` ``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]*", re.ASCII)
_NAME: Final = re.compile(r"\$[A-Za-z_]\w*", re.ASCII)
_CLOSED_BY: Final = {"$(": ("(", ")"), "${": ("{", "}")}


def shell_word(text: str) -> str:
    """The text as one word. Text that the user quoted as a whole, and expansions, stay as they are."""
    if is_quoted(text):
        return text
    parts = list(_parts(text))
    if all(expanded or _PLAIN.fullmatch(part) for part, expanded in parts):
        return text
    if not any(expanded for _, expanded in parts):
        return shlex.quote(text)
    return "".join(f'"{part}"' if expanded else shlex.quote(part) for part, expanded in parts)


def is_quoted(text: str) -> bool:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return quoted and len(shell_words(text)) == 1


def shell_words(text: str) -> list[str]:
    """The words of a shell command; none if a quotation does not end."""
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """The text split into literal parts (False) and expansions (True)."""
    literal, at = "", 0
    while at < len(text):
        end = _expansion_end(text, at)
        if end == at:
            literal += text[at]
            at += 1
            continue
        if literal:
            yield literal, False
        yield text[at:end], True
        literal, at = "", end
    if literal:
        yield literal, False


def _expansion_end(text: str, at: int) -> int:
    """Where the expansion at `at` ends; `at` itself if there is none."""
    if text[at] == "`":
        return text.find("`", at + 1) + 1 or at
    name = _NAME.match(text, at)
    if name:
        return name.end()
    brackets = _CLOSED_BY.get(text[at : at + 2])
    return _closed_at(text, at + 1, *brackets) or at if brackets else at


def _closed_at(text: str, at: int, opening: str, closing: str) -> int:
    """The index after the matching bracket; 0 if there is none. Quoted brackets do not count."""
    depth, quote = 0, ""
    for index in range(at, len(text)):
        char = text[index]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == opening:
            depth += 1
        elif char == closing:
            depth -= 1
            if depth == 0:
                return index + 1
    return 0
