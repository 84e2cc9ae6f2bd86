"""Asks Prometheus for one number."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec

from manta.api.text import one_line, without_credentials
from manta.ray.models import Unreachable
from manta.ray.transport import DashboardTransport, Reply


async def query_number(transport: DashboardTransport, address: str, query: str) -> float | str:
    """The number, or why there is none."""
    url = f"{address.rstrip('/')}/api/v1/query?{urlencode({'query': query})}"
    reply = await transport.probe(url)
    if isinstance(reply, Unreachable):
        return without_credentials(reply.why)
    return number_in(reply)


def number_in(reply: Reply) -> float | str:
    """The one number of an answer: a scalar, or a vector of one series."""
    try:
        answer: Any = msgspec.json.decode(reply.body)
    except msgspec.DecodeError:
        return f"it answered {reply.status}, not in JSON"
    if not isinstance(answer, dict) or answer.get("status") != "success":
        error = answer.get("error", "") if isinstance(answer, dict) else ""
        return f"it answered {reply.status}: {one_line(str(error), 200)}"
    data = answer.get("data") or {}
    result = data.get("result") or []
    pair = result
    if data.get("resultType") == "vector":
        if len(result) != 1:
            return f"the query returns {len(result)} series; it must return one"
        pair = result[0].get("value") or []
    try:
        return float(pair[1])
    except (IndexError, TypeError, ValueError):
        return "the query returns no number"
