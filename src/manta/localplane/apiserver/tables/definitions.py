"""What a column is, before anything is put into it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from manta.api.times import parse_time
from manta.localplane.apiserver.tables.durations import age

Definitions = list[dict[str, Any]]
Cells = Callable[[dict[str, Any], datetime], list[Any]]

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


def columns(text: str) -> Definitions:
    """Columns from a line such as `Name, Ready, *IP`; a star marks what only `-o wide` shows."""
    return [
        NAME | {"priority": int(name.startswith("*"))}
        if name.lstrip("*") == "Name"
        else definition(name.lstrip("*"), wide=name.startswith("*"))
        for name in text.split(", ")
    ]


def since(text: str | None, now: datetime) -> str:
    if not text:
        return "<unknown>"
    try:
        return age(parse_time(text), now)
    except ValueError:
        return "<invalid>"


def object_age(obj: dict[str, Any], now: datetime) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)
