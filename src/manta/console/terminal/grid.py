"""A table of Textual that changes only the cells that differ, and keeps its cursor on its object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text
from textual.widgets import DataTable

from manta.console.terminal.tables import Cell, Row

COLOURS: Final[Mapping[str, str]] = {
    "good": "green",
    "wait": "yellow",
    "bad": "bold red",
    "calm": "grey70",
}


def text_of(cell: Cell) -> Text:
    """Never markup: other users choose names and messages."""
    return Text(cell.text, style=COLOURS.get(cell.tone, ""), no_wrap=True)


class Grid(DataTable[Text]):
    def __init__(self, columns: Sequence[str], **options: Any) -> None:
        super().__init__(cursor_type="row", zebra_stripes=True, **options)
        self._names = tuple(columns)
        self._shown: dict[str, Row] = {}

    def on_mount(self) -> None:
        for number, name in enumerate(self._names):
            self.add_column(name, key=str(number))

    @property
    def chosen(self) -> str:
        """The key of the row under the cursor; empty if there is none."""
        keys = list(self._shown)
        return keys[self.cursor_row] if 0 <= self.cursor_row < len(keys) else ""

    def show(self, rows: Mapping[str, Row]) -> None:
        """Show these rows, in this order."""
        if list(rows) != list(self._shown):
            self._fill(rows)
        else:
            for key, row in rows.items():
                self._change(key, self._shown[key], row)
        self._shown = dict(rows)

    def _change(self, key: str, before: Row, row: Row) -> None:
        for number, (old, new) in enumerate(zip(before, row, strict=True)):
            if old != new:
                self.update_cell(key, str(number), text_of(new), update_width=True)

    def _fill(self, rows: Mapping[str, Row]) -> None:
        chosen, at, top = self.chosen, self.cursor_row, self.scroll_y
        self.clear()
        for key, row in rows.items():
            self.add_row(*(text_of(one) for one in row), key=key)
        keys = list(rows)
        if keys:
            to = keys.index(chosen) if chosen in rows else min(max(at, 0), len(keys) - 1)
            self.move_cursor(row=to, animate=False)
            self.scroll_to(y=top, animate=False)
