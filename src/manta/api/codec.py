"""Converts views to JSON values, to compare and send a status."""

from __future__ import annotations

from typing import Any

import msgspec


def to_json(value: msgspec.Struct) -> dict[str, Any]:
    """The view as dicts and lists; empty fields are left out.

    `msgspec.to_builtins` keeps tuples, which never equal the lists that the API server returns.
    """
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return plain
