"""What an index answers, page by page and in the words of Ray's state API."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from manta.history.index.attempts import Attempt, Words, attempts, task
from manta.history.index.schema import COUNTED_COLUMNS, DRIVER, TASK_STATES

MAX_ROWS: Final = 10_000
"""The rows of one page, as in Ray."""
_WORD_FILTERS: Final = {
    "name": "name", "func_or_class_name": "func", "type": "type", "actor_id": "actor", "node_id": "node",
    "worker_id": "worker", "error_type": "error_type", "language": "language",
    "placement_group_id": "placement_group",
}  # fmt: skip
_BYTES_FILTERS: Final = {"task_id": "task_id", "job_id": "job", "parent_task_id": "parent"}
TASK_FILTERS: Final = ("state", "attempt_number", *_WORD_FILTERS, *_BYTES_FILTERS)


class FilterError(ValueError):
    """A filter that tasks do not have. The message names those that they have."""


class Filter(NamedTuple):
    key: str
    predicate: str
    value: str


class Page(NamedTuple):
    total: int
    """Tasks of the session."""
    matching: int
    rows: Iterator[dict[str, Any]]
    """Read from the index while it is iterated over: a page may be large."""


class _Condition(NamedTuple):
    column: str
    operator: str
    value: object

    def __str__(self) -> str:
        return f"{self.column} {self.operator} ?"


def tasks(
    database: sqlite3.Connection,
    filters: Sequence[Filter] = (),
    *,
    limit: int = 100,
    offset: int = 0,
    detail: bool = False,
    drivers: bool = False,
) -> Page:
    """A page of task attempts in the order of their first event. Raises FilterError."""
    conditions = [_condition(database, one) for one in filters]
    total = _count(database, [], drivers=drivers)
    matching = _count(database, conditions, drivers=drivers) if conditions else total
    clauses = [*map(str, conditions), *([] if drivers else [f"type IS NOT {DRIVER}"])]
    where = f"WHERE {' AND '.join(clauses)} " if clauses else ""
    values = [one.value for one in conditions]
    page = (*values, min(limit, MAX_ROWS), offset)
    found = attempts(database, f"{where}ORDER BY rowid LIMIT ? OFFSET ?", page) if matching else ()
    words = Words(database)
    return Page(total, matching, (task(row, words, detail=detail) for row in found))


def _count(database: sqlite3.Connection, conditions: Sequence[_Condition], *, drivers: bool) -> int:
    """How many tasks match. Drivers are subtracted: a condition on them would read every row."""
    values = [one.value for one in conditions]
    where = " AND ".join(map(str, conditions)) or "1"
    if all(one.column in COUNTED_COLUMNS for one in conditions):
        table, number = "counts", "coalesce(sum(count), 0)"
    else:
        table, number = "tasks", "count(*)"
    select = f"SELECT {number} FROM {table} WHERE {where}"  # noqa: S608 - our own names
    found = int(database.execute(select, values).fetchone()[0])
    if drivers:
        return found
    of_drivers = f"{select} AND type = {DRIVER}"
    return found - int(database.execute(of_drivers, values).fetchone()[0])


def failed_tasks(
    database: sqlite3.Connection, filters: Sequence[Filter] = (), *, limit: int, offset: int = 0
) -> list[dict[str, Any]]:
    """Task attempts with an error, the first failure first. Raises FilterError."""
    conditions = [_condition(database, one) for one in filters]
    more = "".join(f" AND {one}" for one in conditions)
    failed, finished = (f"s{TASK_STATES.index(one)}" for one in ("FAILED", "FINISHED"))
    page = (
        f"INDEXED BY tasks_by_error_type WHERE error_type IS NOT NULL{more}"
        f" ORDER BY coalesce({failed}, {finished}, 0), rowid LIMIT ? OFFSET ?"
    )
    words = Words(database)
    values = [one.value for one in conditions]
    rows = attempts(database, page, (*values, min(limit, MAX_ROWS), offset))
    return [task(row, words, detail=True) for row in rows]


def task_attempt(database: sqlite3.Connection, task_id: str, attempt: int | None) -> Attempt | None:
    """One attempt; None for `attempt`: the latest."""
    try:
        plain = bytes.fromhex(task_id)
    except ValueError:
        return None
    which = "WHERE task_id = ? AND (? IS NULL OR attempt = ?) ORDER BY attempt DESC LIMIT 1"
    return next(attempts(database, which, (plain, attempt, attempt)), None)


def _condition(database: sqlite3.Connection, one: Filter) -> _Condition:
    if one.predicate not in ("=", "!="):
        raise FilterError(f"predicate {one.predicate!r}: must be = or !=")
    column, value = _column(database, one)
    return _Condition(column, "=" if one.predicate == "=" else "IS NOT", value)


def _column(database: sqlite3.Connection, one: Filter) -> tuple[str, object]:
    if one.key == "state":
        upper = one.value.upper()
        return "state", TASK_STATES.index(upper) if upper in TASK_STATES else -1
    if one.key == "attempt_number":
        return "attempt", int(one.value) if one.value.isdecimal() and len(one.value) < 10 else -1
    if one.key in _BYTES_FILTERS:
        try:
            return _BYTES_FILTERS[one.key], bytes.fromhex(one.value)
        except ValueError:
            return _BYTES_FILTERS[one.key], b"?"
    if one.key in _WORD_FILTERS:
        found = database.execute("SELECT id FROM words WHERE word = ?", (one.value,)).fetchone()
        return _WORD_FILTERS[one.key], found[0] if found else -1
    raise FilterError(f"filter {one.key!r}: tasks have {', '.join(TASK_FILTERS)}")


# ── everything but tasks ─────────────────────────────────────────────────────────────────
def rows(database: sqlite3.Connection, query: str, *values: object) -> Iterator[dict[str, Any]]:
    for row in database.execute(query, values):
        yield dict(row)


def jobs(database: sqlite3.Connection) -> list[dict[str, Any]]:
    """Driver jobs with their submissions, newest first; submissions without a driver too."""
    query = """
    SELECT j.job_id, coalesce(j.submission_id, s.submission_id) AS submission_id, j.entrypoint,
      coalesce(s.entrypoint, j.entrypoint) AS command, s.status, s.message, j.state, j.driver_pid,
      j.driver_node_id, n.ip, j.runtime_env, j.metadata,
      coalesce(s.started, j.started) AS started, coalesce(s.ended, j.ended) AS ended
    FROM jobs j LEFT JOIN submissions s ON s.submission_id = j.submission_id
      LEFT JOIN nodes n ON n.node_id = j.driver_node_id
    UNION ALL
    SELECT NULL, s.submission_id, s.entrypoint, s.entrypoint, s.status, s.message, NULL, NULL, NULL, NULL,
      NULL, NULL, s.started, s.ended
    FROM submissions s WHERE s.submission_id NOT IN (SELECT submission_id FROM jobs WHERE submission_id IS NOT NULL)
    ORDER BY started DESC"""
    return list(rows(database, query))


def job_status(job: Mapping[str, Any]) -> str:
    """As Ray's job API says it. A driver without a submission says only whether it finished."""
    if job["status"]:
        return str(job["status"])
    return "SUCCEEDED" if job["state"] == "FINISHED" else "RUNNING"


def counts(database: sqlite3.Connection, job_id: str = "") -> list[dict[str, Any]]:
    """Number of task attempts by function, type and state; drivers are left out."""
    query = """
    SELECT f.word AS func, t.word AS type, c.state, sum(c.count) AS count
    FROM counts c LEFT JOIN words f ON f.id = c.func LEFT JOIN words t ON t.id = c.type
    WHERE t.word IS NOT 'DRIVER_TASK' AND (? = '' OR c.job = ?)
    GROUP BY c.func, c.type, c.state"""
    job = bytes.fromhex(job_id) if job_id else b""
    return [
        {**one, "state": TASK_STATES[one["state"]]} for one in rows(database, query, job_id, job)
    ]


def summary(database: sqlite3.Connection) -> dict[str, Any]:
    """The session in a few numbers."""
    by_state: dict[str, int] = {}
    for one in counts(database):
        by_state[one["state"]] = by_state.get(one["state"], 0) + one["count"]
    number = {
        table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
        for table in ("jobs", "actors", "nodes", "workers")
    }
    logs = database.execute("SELECT count(*), coalesce(sum(size), 0) FROM log_files")
    files, size = logs.fetchone()
    facts = dict(database.execute("SELECT name, value FROM facts"))
    return {"tasks": by_state, **number, "log_files": files, "log_bytes": size, **facts}
