"""How a command says that it was given what cannot be meant."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any


class UsageError(Exception):
    """The command cannot be carried out as it was given; the text says what to do instead."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'get'?` for a word that is nearly one of the known ones, else nothing."""
    from difflib import get_close_matches

    spelled = {one.lower(): one for one in known}
    near = get_close_matches(word.lower(), spelled, n=1, cutoff=0.6)
    return f"; did you mean {spelled[near[0]]!r}?" if near else ""


def examples(*rows: tuple[str, str]) -> dict[str, Any]:
    """Arguments of `add_parser` that end a verb's help with examples: command and meaning."""
    width = max(len(command) for command, _ in rows)
    lines = (f"  {command.ljust(width)}   {meaning}" for command, meaning in rows)
    return {
        "epilog": "examples:\n" + "\n".join(line.rstrip() for line in lines),
        "formatter_class": _Help,
    }


class _Help(argparse.HelpFormatter):
    """Wraps paragraphs, and leaves the lines of the examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)
