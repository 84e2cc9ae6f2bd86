"""Tables of custom resources: the columns that their definitions ask for."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from manta.api.times import parse_time
from manta.localplane.apiserver.served import Column, CustomVersion
from manta.localplane.apiserver.tables.definitions import NAME, Cells, Definitions, definition
from manta.localplane.apiserver.tables.durations import age
from manta.localplane.apiserver.tables.jsonpath import BadPathError, compile_path


def custom_table(version: CustomVersion) -> tuple[Definitions, Cells]:
    columns = version.columns
    shown = [NAME] + [
        definition(one.name, one.type, wide=one.priority > 0, text=one.description, form=one.format)
        | {"priority": one.priority}
        for one in columns
    ]

    def cells(obj: dict[str, Any], now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], *(_cell(column, obj, now) for column in columns)]

    return shown, cells


def _cell(column: Column, obj: dict[str, Any], now: datetime) -> Any:
    try:
        found = compile_path(column.path)(obj)
    except BadPathError:
        return None
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
