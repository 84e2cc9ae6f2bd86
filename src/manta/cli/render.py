"""What commands print: tables and plain sentences. Pure: text in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns wide enough for their longest cell, three spaces apart, as kubectl prints them."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = (
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
    return "\n".join(lines)


def server_table(
    document: dict[str, Any],
    *,
    wide: bool = False,
    namespaces: bool = False,
    more: tuple[str, Mapping[tuple[str, str], str]] | None = None,
) -> str:
    """A `meta.k8s.io/v1` Table as text. `more`: a last column of our own, by namespace and name."""
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


def bytes_text(count: float) -> str:
    """1536 -> '1.5 KiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
