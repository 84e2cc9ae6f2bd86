"""Tables: the columns of `kubectl get`, and the function that fills a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from manta.api.ages import age
from manta.api.times import parse_time

Columns = list[dict[str, Any]]
Cells = Callable[[dict[str, Any], datetime], list[Any]]


@dataclass(frozen=True, slots=True)
class Table:
    columns: Columns
    cells: Cells


_NAME_TEXT = (
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically. "
    "Name is primarily intended for creation idempotence and configuration definition. Cannot be "
    "updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)


def definition(
    name: str, kind: str = "string", *, wide: bool = False, text: str = "", form: str = ""
) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "format": form,
        "description": text,
        "priority": 1 if wide else 0,
    }


NAME = definition("Name", text=_NAME_TEXT, form="name")


_TYPES = {
    "Created At": "date",
    "Desired": "integer",
    "Current": "integer",
    "Active": "integer",
    "Value": "integer",
    "Allowed Disruptions": "integer",
    "Suspend": "boolean",
    "Global-Default": "boolean",
}
"""The types of columns that are not text."""


def columns(text: str) -> Columns:
    """Columns from a line such as `Name, Ready:integer, *IP`; a star marks a column of `-o wide`."""
    return [_column(one) for one in text.split(", ")]


def _column(text: str) -> dict[str, Any]:
    wide = text.startswith("*")
    name, _, kind = text.lstrip("*").partition(":")
    if name == "Name":
        return NAME | {"priority": int(wide)}
    return definition(name, kind or _TYPES.get(name, "string"), wide=wide)


def table(text: str, cells: Cells) -> Table:
    """A table with these columns (see `columns`)."""
    return Table(columns(text), cells)


def since(text: str | None, now: datetime) -> str:
    if not text:
        return "<unknown>"
    try:
        return age(parse_time(text), now)
    except ValueError:
        return "<invalid>"


def object_age(obj: dict[str, Any], now: datetime) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def _name_and_age(obj: dict[str, Any], now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], object_age(obj, now)]


NAME_AND_AGE = table("Name, Age", _name_and_age)
"""The table of a kind that registers none."""
