"""From views to plain JSON values: what a status writer compares and sends."""

from __future__ import annotations

from typing import Any

import msgspec


def to_json(value: msgspec.Struct) -> dict[str, Any]:
    """The JSON object of a view, as dicts and lists; fields that are empty are left out.

    `msgspec.to_builtins` keeps tuples, which never equal the lists that the API server returns.
    """
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return plain
