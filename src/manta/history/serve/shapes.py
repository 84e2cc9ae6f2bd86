"""What the endpoints share: the session, its query parameters, and the shapes of Ray's answers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from manta.history.index.queries import MAX_ROWS, Filter, FilterError
from manta.history.logs import LogReader

_PART_BYTES: Final = 1024 * 1024
"""Each part waits for a thread: few large ones make a page of 17 MB much faster on a busy machine."""
Query = Mapping[str, list[str]]


class NotFoundError(Exception):
    """The session has no such thing."""


@dataclass(frozen=True, slots=True)
class Session:
    """What an endpoint may use."""

    database: sqlite3.Connection
    reader: LogReader
    ray_version: str


def ok(data: Any, message: str = "") -> dict[str, Any]:
    return {"result": True, "msg": message, "data": data}


class JsonStream(NamedTuple):
    """A large answer, encoded while it is sent."""

    parts: Iterator[bytes]


def state_list(rows: list[Any], total: int | None = None, matching: int | None = None) -> Any:
    count = len(rows) if total is None else total
    return ok(
        {
            "result": {
                "total": count,
                "num_after_truncation": count,
                "num_filtered": len(rows) if matching is None else matching,
                "result": rows,
                "partial_failure_warning": "",
                "warnings": None,
            }
        }
    )


def streamed_list(rows: Iterator[Any], total: int, matching: int) -> JsonStream:
    """`state_list` in bounded memory."""
    before, _, after = msgspec.json.encode(state_list(["@"], total, matching)).partition(b'"@"')
    return JsonStream(_parts(before, rows, after))


def streamed_array(rows: Iterator[Any]) -> JsonStream:
    """An array in bounded memory."""
    return JsonStream(_parts(b"[", rows, b"]"))


def _parts(before: bytes, rows: Iterator[Any], after: bytes) -> Iterator[bytes]:
    part = [before]
    size, comma = 0, b""
    for row in rows:
        one = msgspec.json.encode(row)
        part += (comma, one)
        size, comma = size + len(one), b","
        if size >= _PART_BYTES:
            yield b"".join(part)
            size = 0
            part.clear()
    yield b"".join((*part, after))


def first(query: Query, name: str, default: str = "") -> str:
    return query.get(name, [default])[0]


def limit_of(query: Query) -> int:
    text = first(query, "limit", "100")
    if not text.isdecimal():
        return 100
    return min(int(text), MAX_ROWS) if len(text) < 10 else MAX_ROWS


def filters_of(query: Query) -> list[Filter]:
    """`filter_keys`, `filter_predicates` and `filter_values`, which come in parallel. Raises FilterError."""
    keys = query.get("filter_keys", [])
    predicates, values = query.get("filter_predicates", []), query.get("filter_values", [])
    if not len(keys) == len(predicates) == len(values):
        raise FilterError("filter_keys, filter_predicates and filter_values must come together")
    return [Filter(*one) for one in zip(keys, predicates, values, strict=True)]
