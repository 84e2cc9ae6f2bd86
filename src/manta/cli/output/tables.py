"""Tables as kubectl prints them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as their longest cell, three spaces apart."""
    return "\n".join(aligned((header, *rows))[0])


def aligned(
    rows: Iterable[Sequence[object]], at_least: Sequence[int] = ()
) -> tuple[list[str], list[int]]:
    """The lines of a table, and the widths of its columns, for rows that follow later."""
    cells = [[str(cell) for cell in row] for row in rows]
    columns = range(len(cells[0]) if cells else 0)
    floor = at_least or [0] * len(columns)
    widths = [max(floor[at], *(len(row[at]) for row in cells)) for at in columns]
    lines = [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return lines, widths


def server_table(
    document: dict[str, Any],
    *,
    wide: bool = False,
    namespaces: bool = False,
    more: tuple[str, Mapping[tuple[str, str], str]] | None = None,
) -> str:
    """A `meta.k8s.io/v1` Table as text. `more`: title and cells of an additional last column."""
    columns = [
        (index, column["name"].upper())
        for index, column in enumerate(document.get("columnDefinitions", ()))
        if wide or not column.get("priority")
    ]
    header = [name for _, name in columns]
    rows = [
        [_cell(row["cells"][index]) for index, _ in columns] for row in document.get("rows") or ()
    ]
    if more is not None:
        header.append(more[0])
        for cells, row in zip(rows, document.get("rows") or (), strict=True):
            meta = row["object"]["metadata"]
            cells.append(more[1].get((meta.get("namespace", ""), meta["name"]), ""))
    if namespaces:
        header = ["NAMESPACE", *header]
        owners = [row["object"]["metadata"].get("namespace", "") for row in document["rows"] or ()]
        rows = [[owner, *row] for owner, row in zip(owners, rows, strict=True)]
    return table(header, rows)


def _cell(value: object) -> str:
    return "<none>" if value in (None, "") else str(value)
