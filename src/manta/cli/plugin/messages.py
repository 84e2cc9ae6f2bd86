"""Messages of a command about its own progress, on standard error.

Standard output is for the log of the job.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from manta.runtime.clock import SystemClock

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Messages:
    style: str = "auto"
    """`record`: with the time, as in a log; `pretty`: the text alone; `auto`: by the terminal."""
    color: str = "auto"
    """`true`, `false`, or `auto`: by the terminal."""

    def say(self, text: str) -> None:
        print(self.shown(text, terminal=sys.stderr.isatty()), file=sys.stderr, flush=True)

    def shown(self, text: str, *, terminal: bool) -> str:
        if self.style == "record":
            text = f"{SystemClock().now():%Y-%m-%d %H:%M:%S}\tINFO kubectl-ray -- {text}"
        wanted = self.color == "true" or (self.color == "auto" and terminal)
        return f"{_BOLD}{text}{_PLAIN}" if wanted else text
