"""What Ray's dashboard answered while the cluster lived, for what the index cannot tell as well."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from manta.history.json_text import read_json
from manta.history.serve.shapes import Query, Session

ONLY_STORED: Final = frozenset(
    (
        "api/v0/cluster_metadata",
        "api/v0/placement_groups",
        "api/v0/platform_events",
        "api/v0/runtime_env_redaction",
        "api/serve/applications",
        "api/train/v2/runs/v1",
        "api/cluster_status",
        "timezone",
    )
)
"""Endpoints that the index cannot answer as well as the dashboard did."""
_NO_STATUS: Final = "No cluster status"
"""What Ray says of a cluster without an autoscaler."""


def stored_answer(session: Session, path: str, query: Query, *, known: bool) -> bytes | None:
    """What the dashboard answered to this URI, else to this path, while the cluster lived; None: it is not stored,
    or the index knows better. `known`: the index answers this path."""
    if path not in ONLY_STORED and (known or not path.startswith("api/")):
        return None
    text = "&".join(f"{name}={value}" for name, values in query.items() for value in values)
    body = _body(session, path, f"{path}?{text}")
    if body is not None and path == "api/cluster_status" and not _has_status(body):
        return None
    return body


def _body(session: Session, path: str, uri: str) -> bytes | None:
    select = "SELECT body FROM answers WHERE path = ? ORDER BY uri = ? DESC, at DESC LIMIT 1"
    row = session.database.execute(select, (path, uri)).fetchone()
    return bytes(row[0]) if row else None


def _has_status(body: bytes) -> bool:
    data = _data(body)
    status = data.get("clusterStatus")
    return bool(status) and not str(status).startswith(_NO_STATUS)


def _data(body: bytes) -> dict[str, Any]:
    try:
        answer = read_json(msgspec.json.decode, body)
    except ValueError:  # it was read when it was stored, but from a shallower stack
        return {}
    data = answer.get("data") if isinstance(answer, dict) else None
    return data if isinstance(data, dict) else {}


def last_summary(session: Session) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The nodes as the dashboard saw them last, by id, and their logical resources as it wrote them."""
    body = _body(session, "nodes", "nodes?view=summary")
    data = _data(body) if body is not None else {}
    rows, logical = data.get("summary"), data.get("nodeLogicalResources")
    found: dict[str, dict[str, Any]] = {}
    for one in rows if isinstance(rows, list) else ():
        raylet = one.get("raylet") if isinstance(one, dict) else None
        if isinstance(raylet, dict) and isinstance(raylet.get("nodeId"), str):
            found[raylet["nodeId"]] = one
    return found, logical if isinstance(logical, dict) else {}


def merged_node(node: dict[str, Any], seen: dict[str, Any] | None) -> dict[str, Any]:
    """A node of the index, with the usage that the dashboard saw last. How it ended is the index's."""
    if seen is None:
        return node
    raylet = {name: value for name, value in node["raylet"].items() if value not in ("", 0, {}, [], None)}  # fmt: skip
    address = {name: node[name] for name in ("ip", "hostname") if node[name]}
    return {**node, **seen, **address, "raylet": {**seen["raylet"], **raylet}}
