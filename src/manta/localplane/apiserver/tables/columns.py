"""Which columns a resource has, and how its cells are filled."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from manta.api.times import parse_time
from manta.localplane.apiserver.served import Served
from manta.localplane.apiserver.tables.durations import age

Cells = Callable[[dict[str, Any], datetime], list[Any]]


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


def table_of(served: Served) -> tuple[list[dict[str, Any]], Cells]:
    return [definition("Name", form="name"), definition("Age")], _name_and_age


def _name_and_age(obj: dict[str, Any], now: datetime) -> list[Any]:
    meta = obj["metadata"]
    return [meta["name"], age(parse_time(meta["creationTimestamp"]), now)]
