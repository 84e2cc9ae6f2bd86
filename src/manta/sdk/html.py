"""How objects look in a notebook. Everything that comes from a cluster is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TypeVar

T = TypeVar("T")
Row = Mapping[str, str]


def table_html(rows: Sequence[Row]) -> str:
    """A table with one column for each key.

    >>> table_html([{"NAME": "<b>"}])
    '<table><thead><tr><th>NAME</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    heads = "".join(f"<th>{escape(name)}</th>" for name in (rows[0] if rows else {}))
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row.values()) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def card_html(title: str, row: Row) -> str:
    """One object: its fields below each other."""
    lines = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(value)}</td></tr>"
        for name, value in row.items()
        if value
    )
    return f"<div><b>{escape(title)}</b><table>{lines}</table></div>"


class Table(list[T]):
    """A list that a notebook shows as a table."""

    def __init__(self, objects: Sequence[T], rows: Sequence[Row]) -> None:
        super().__init__(objects)
        self._rows = rows

    def _repr_html_(self) -> str:
        return table_html(self._rows) if self._rows else "<i>none</i>"
