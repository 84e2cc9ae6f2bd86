"""Examples at the end of a command's help."""

from __future__ import annotations

import argparse
from typing import Any


def examples(*rows: tuple[str, str]) -> dict[str, Any]:
    """Arguments of `add_parser` that add examples to the help: pairs of command and meaning."""
    width = max(len(command) for command, _ in rows)
    lines = (f"  {command.ljust(width)}   {meaning}" for command, meaning in rows)
    return {
        "epilog": "examples:\n" + "\n".join(line.rstrip() for line in lines),
        "formatter_class": _Help,
    }


class _Help(argparse.HelpFormatter):
    """Wraps paragraphs, but not the lines of the examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)
