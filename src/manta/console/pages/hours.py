"""CPU- and GPU-hours of clusters that are watched for idleness, used and idle: of one, and of all that the user may see. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from manta.console.html import Html, tag
from manta.console.pages.page import Section, Table
from manta.console.snapshot import Item, Snapshot
from manta.rules.usage import Hours, Usage, hours_since, sum_of, totals, usage_of

SHOWN: Final = timedelta(days=7)
ROWS: Final = 10
"""The most idle ones; `manta usage` has all."""
_COLUMNS: Final = ("Used CPU-hours", "Idle CPU-hours", "Used GPU-hours", "Idle GPU-hours")


def hours_of(snapshot: Snapshot, one: Item) -> str:
    usage = _usage(one)
    if usage is None:
        return ""
    hours = hours_since(usage, snapshot.now - SHOWN, snapshot.now)
    used = f"used {hours.used_cpu:.1f} CPU-hours and {hours.used_gpu:.1f} GPU-hours"
    return f"{used}, idle {hours.idle_cpu:.1f} and {hours.idle_gpu:.1f}"


def hours_sections(snapshot: Snapshot) -> Iterator[Section]:
    """None if no cluster is watched."""
    clusters = [
        (one.object.metadata, usage)
        for one in snapshot.items
        if one.kind == "RayCluster" and (usage := _usage(one)) is not None
    ]
    for by in ("namespace", "user") if clusters else ():
        rows = totals(clusters, by, snapshot.now - SHOWN, snapshot.now)
        title = f"Hours of {SHOWN.days} days by {by}"
        yield Section(f"hours-{by}", title, table=_table(by, rows), kind="half")


def _usage(one: Item) -> Usage | None:
    if "usage" not in one.memo:
        one.memo["usage"] = usage_of(one.object.metadata)
    found: Usage | None = one.memo["usage"]
    return found


def _table(by: str, found: dict[str, Hours]) -> Table:
    shown = list(found.items())[:ROWS]
    rows = {f"hour-{by}-{who}": _row(f"hour-{by}-{who}", who or "-", its) for who, its in shown}
    if len(found) > 1:
        rows[f"hour-{by}"] = _row(f"hour-{by}", f"all {len(found)}", sum_of(found.values()))
    return Table(f"hours-{by}-rows", (by.capitalize(), *_COLUMNS), rows)


def _row(row: str, who: str, hours: Hours) -> Html:
    values = (hours.used_cpu, hours.idle_cpu, hours.used_gpu, hours.idle_gpu)
    cells = zip(_COLUMNS, values, strict=True)
    return tag(
        "tr",
        tag("td", who, class_="name"),
        [tag("td", f"{value:.1f}", class_="number", data_label=label) for label, value in cells],
        id=row,
    )
