"""Tables of custom resources: the printer columns of their definitions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from manta.api.ages import age
from manta.api.jsonpath import BadPathError, compile_path, values
from manta.api.times import parse_time
from manta.localplane.apiserver.tables.columns import NAME, Table, definition


@dataclass(frozen=True, slots=True)
class Column:
    """One of the `additionalPrinterColumns` of a definition."""

    name: str
    type: str
    path: str
    format: str = ""
    description: str = ""
    priority: int = 0


def custom_table(columns: tuple[Column, ...]) -> Table:
    shown = [NAME] + [
        definition(one.name, one.type, wide=one.priority > 0, text=one.description, form=one.format)
        | {"priority": one.priority}
        for one in columns
    ]

    def cells(obj: dict[str, Any], now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], *(_cell(column, obj, now) for column in columns)]

    return Table(shown, cells)


def _cell(column: Column, obj: dict[str, Any], now: datetime) -> Any:
    try:
        path = compile_path(column.path.strip().removeprefix("{").removesuffix("}"))
    except BadPathError:
        return None
    found = list(values(path, obj))
    if not found or found[0] is None:
        return None
    value = found[0]
    match column.type:
        case "integer":
            whole = isinstance(value, int | float) and not isinstance(value, bool)
            return int(value) if whole else None
        case "number":
            return value if isinstance(value, int | float) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return _date(value, now)
        case _:
            return ", ".join(_text(one) for one in found)


def _date(value: Any, now: datetime) -> str:
    try:
        return age(parse_time(str(value)), now)
    except ValueError:
        return "<invalid>"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
