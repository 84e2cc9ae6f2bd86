"""The live progress table on a terminal. The only module that imports rich."""

from __future__ import annotations

import time
from typing import Final, Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from manta.cli.output.progress import PlainProgress, Row, State, elapsed

_MARKS: Final[dict[State, tuple[str, str]]] = {
    "waiting": (" ", "yellow"),
    "ready": ("✓", "green"),
    "failed": ("✗", "red"),
}
_ORDER: Final[dict[State, int]] = {"failed": 0, "waiting": 1, "ready": 2}
_FREE_LINES: Final = 4
"""Lines of the terminal that the table does not use."""


class LiveProgress:
    """A table at the bottom; other output of this process appears above it."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._rows: dict[str, Row] = {}
        self._spinner = Spinner("dots", style="yellow")
        self._live = Live(console=self._console, get_renderable=self.table, refresh_per_second=8)
        self._plain: PlainProgress | None = None

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def report(self, who: str, what: str, state: State = "waiting") -> None:
        if self._plain is not None:
            self._plain.report(who, what, state)
            return
        before = self._rows.get(who)
        if before is None or (before.what, before.state) != (what, state):
            self._rows[who] = Row(what, state, time.monotonic())

    def forget(self, who: str) -> None:
        self._rows.pop(who, None)

    def remind(self) -> None:
        """The table shows elapsed times anyway."""

    def finish(self) -> None:
        if self._plain is None:
            self._live.stop()
            self._plain = PlainProgress()

    def table(self) -> Table:
        """The rows that fit: objects, then Pods that failed, wait and are ready."""
        rows = sorted(self._rows.items(), key=_rank)
        fitting = max(self._console.height - _FREE_LINES, 1)
        shown, hidden = rows[:fitting], rows[fitting:]
        table = Table.grid(padding=(0, 1))
        table.add_column(width=1)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        table.add_column(justify="right", no_wrap=True)
        for who, row in shown:
            mark, style = _MARKS[row.state]
            first = self._spinner if row.state == "waiting" else Text(mark, style)
            since = elapsed(time.monotonic() - row.since) if row.state == "waiting" else ""
            table.add_row(first, Text(who), Text(row.what, style), Text(since, "dim"))
        if hidden:
            ready = sum(row.state == "ready" for _, row in hidden)
            table.add_row("", Text(f"and {len(hidden)} more, {ready} of them ready", "dim"), "", "")
        return table


def _rank(item: tuple[str, Row]) -> int:
    """The group of a row. Objects keep their order, before all Pods."""
    who, row = item
    return 1 + _ORDER[row.state] if who.startswith("pod/") else 0
