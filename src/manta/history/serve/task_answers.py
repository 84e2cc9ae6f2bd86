"""Tasks: pages, summary and timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from manta.history.index import queries
from manta.history.index.attempts import Attempt, Words, attempts, profile
from manta.history.index.queries import MAX_ROWS, Filter
from manta.history.serve.shapes import (
    Query,
    Session,
    filters_of,
    first,
    limit_of,
    state_list,
    streamed_array,
    streamed_list,
)

_LINEAGE_CHILDREN: Final = 1000
_TIMELINE_TASKS: Final = MAX_ROWS


def tasks(session: Session, query: Query) -> Any:
    drivers = first(query, "exclude_driver", "true").lower() not in ("true", "1")
    page = queries.tasks(
        session.database, filters_of(query), limit=limit_of(query),
        detail=first(query, "detail").lower() in ("1", "true"), drivers=drivers,
    )  # fmt: skip
    return streamed_list(page.rows, page.total, page.matching)


def summarize(session: Session, query: Query) -> Any:
    job = next((one.value for one in filters_of(query) if one.key == "job_id"), "")
    try:
        found = queries.counts(session.database, job)
    except ValueError:
        found = []
    by_lineage = first(query, "summary_by") == "lineage"
    groups: dict[str, dict[str, Any]] = {}
    totals = {"NORMAL_TASK": 0, "ACTOR_TASK": 0, "ACTOR_CREATION_TASK": 0}
    for one in found:
        name = one["func"] or ""
        group = groups.setdefault(name, {"func_or_class_name": name, "type": one["type"], "state_counts": {}})  # fmt: skip
        group["state_counts"][one["state"]] = one["count"]
        totals[one["type"]] = totals.get(one["type"], 0) + one["count"]
    summary = {
        "summary": _lineage(session, job, groups) if by_lineage else groups,
        "total_tasks": totals["NORMAL_TASK"],
        "total_actor_tasks": totals["ACTOR_TASK"],
        "total_actor_scheduled": totals["ACTOR_CREATION_TASK"],
        "summary_by": "lineage" if by_lineage else "func_name",
    }
    answer = state_list([], sum(totals.values()), sum(totals.values()))
    answer["data"]["result"]["result"] = {"node_id_to_summary": {"cluster": summary}}
    return answer


def _lineage(session: Session, job: str, groups: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Tasks below their functions. Ray nests tasks below the tasks that created them too."""
    children: dict[str, list[dict[str, Any]]] = {}
    only = [Filter("job_id", "=", job)] if job else []
    for row in queries.tasks(session.database, only, limit=_LINEAGE_CHILDREN).rows:
        children.setdefault(row["func_or_class_name"], []).append(_leaf(row))
    return [
        {
            "name": name,
            "key": name,
            "type": "GROUP",
            "timestamp": min((one["timestamp"] for one in children.get(name, ()) if one["timestamp"]), default=None),
            "state_counts": group["state_counts"],
            "children": children.get(name, []),
            "link": None,
        }
        for name, group in groups.items()
    ]  # fmt: skip


def _leaf(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": row["name"],
        "key": row["task_id"],
        "type": row["type"] or "NORMAL_TASK",
        "timestamp": row["creation_time_ms"],
        "state_counts": {row["state"]: 1},
        "children": [],
        "link": {"type": "task", "id": row["task_id"]},
    }


def timeline(session: Session, query: Query) -> Any:
    """Chrome's trace format: one row for each worker, the first 10,000 tasks with a profile."""
    job = first(query, "job_id")
    where = "profile IS NOT NULL AND job = ?" if job else "profile IS NOT NULL"
    rows = attempts(
        session.database,
        f"WHERE {where} ORDER BY rowid LIMIT {_TIMELINE_TASKS}",
        [_bytes(job)] if job else [],
    )
    return streamed_array(_trace(session, rows))


def _trace(session: Session, rows: Iterator[Attempt]) -> Iterator[dict[str, Any]]:
    words = Words(session.database)
    nodes: dict[str | None, int] = {}
    workers: dict[tuple[int, str | None], int] = {}
    for row in rows:
        node = nodes.setdefault(words(row.node), len(nodes))
        worker = workers.setdefault((node, words(row.worker)), len(workers))
        yield from _spans(row, words, node, worker)
    yield from _labels(session, nodes, workers)


def _spans(row: Attempt, words: Words, node: int, worker: int) -> list[dict[str, Any]]:
    about = {
        "task_id": row.task_id.hex(),
        "job_id": row.job.hex() if row.job else None,
        "attempt_number": row.attempt,
        "func_or_class_name": words(row.func),
        "actor_id": words(row.actor),
    }
    return [
        {
            "cat": one["event_name"], "name": one["event_name"], "pid": node, "tid": worker, "ph": "X",
            "ts": one["start_time"] * 1000, "dur": (one["end_time"] - one["start_time"]) * 1000, "args": about,
        }
        for one in profile(row, words)
    ]  # fmt: skip


def _labels(
    session: Session, nodes: Mapping[str | None, int], workers: Mapping[tuple[int, str | None], int]
) -> list[dict[str, Any]]:
    address = {one["node_id"]: one["ip"] for one in queries.rows(session.database, "SELECT * FROM nodes")}  # fmt: skip
    found = [
        {"name": "process_name", "args": {"name": f"Node {address.get(name, name)}"}, "pid": number, "tid": None, "ph": "M"}
        for name, number in nodes.items()
    ]  # fmt: skip
    found += [
        {"name": "thread_name", "args": {"name": f"worker:{name}"}, "pid": node, "tid": number, "ph": "M"}
        for (node, name), number in workers.items()
    ]  # fmt: skip
    return found


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b"?"
