"""The progress of a command that waits.

On a terminal: a live table with elapsed times (`live_progress.py`, which alone loads rich). Elsewhere:
one line for each change, and a reminder if nothing changes for a while.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, Self

State = Literal["waiting", "ready", "failed"]
REMINDER_SECONDS = 30.0
"""Seconds without a change after which plain output repeats what it waits for."""


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    state: State
    since: float
    """Start of this state, by the monotonic clock."""


class Progress(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def report(self, who: str, what: str, state: State = "waiting") -> None:
        """Show what `who` does or waits for."""

    def forget(self, who: str) -> None:
        """Remove the row of `who`."""

    def remind(self) -> None:
        """Call this about once a second: repeats what has not changed for a while."""

    def finish(self) -> None:
        """Release the terminal; later reports are plain lines."""


class PlainProgress:
    """Prints each change once, to standard error."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rows: dict[str, Row] = {}
        self._printed = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def report(self, who: str, what: str, state: State = "waiting") -> None:
        before = self._rows.get(who)
        if before is None or (before.what, before.state) != (what, state):
            self._rows[who] = Row(what, state, self._clock())
            self._print(who, what)

    def forget(self, who: str) -> None:
        self._rows.pop(who, None)

    def remind(self) -> None:
        if self._clock() - self._printed < REMINDER_SECONDS:
            return
        for who, row in self._rows.items():
            if row.state == "waiting":
                self._print(who, f"{row.what} (for {elapsed(self._clock() - row.since)})")

    def finish(self) -> None:
        """Nothing to release."""

    def _print(self, who: str, what: str) -> None:
        self._printed = self._clock()
        print(f"  {who:<40} {what}", file=sys.stderr, flush=True)


def open_progress() -> AbstractContextManager[Progress]:
    if not is_live(os.environ):
        return PlainProgress()
    from manta.cli.output.live_progress import LiveProgress

    return LiveProgress()


def is_live(environment: Mapping[str, str]) -> bool:
    """Whether output may be redrawn: not in a pipe, in CI, or with NO_COLOR."""
    plain = environment.get("NO_COLOR") or environment.get("CI")
    if plain or environment.get("TERM", "dumb") in ("", "dumb"):
        return False
    return sys.stdout.isatty() and sys.stderr.isatty()


def elapsed(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02} s"
