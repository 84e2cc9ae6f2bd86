"""What an index answers, page by page and in the words of Ray's state API."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from manta.history.index.rows import read_profile
from manta.history.index.schema import STATE_COLUMNS, TASK_STATES

MAX_ROWS: Final = 10_000
"""Of one page, as in Ray."""
_RUNNING, _FINISHED, _FAILED = (f"s{TASK_STATES.index(one)}" for one in ("RUNNING", "FINISHED", "FAILED"))  # fmt: skip
_CREATED: Final = ("s1", "s2", "s5", _RUNNING)
_NO_DRIVERS: Final = "type IS NOT (SELECT id FROM words WHERE word = 'DRIVER_TASK')"
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
    where, values = _where(database, filters, drivers=drivers)
    total = database.execute(
        f"SELECT coalesce(sum(count), 0) FROM counts WHERE {'1' if drivers else _NO_DRIVERS}"  # noqa: S608
    ).fetchone()[0]
    matching = total
    if filters:
        matching = database.execute(f"SELECT count(*) FROM tasks{where}", values).fetchone()[0]  # noqa: S608
    page = f"SELECT * FROM tasks{where} ORDER BY rowid LIMIT ? OFFSET ?"  # noqa: S608
    found = database.execute(page, (*values, min(limit, MAX_ROWS), offset))
    words = Words(database)
    return Page(total, matching, (task_row(row, words, detail=detail) for row in found))


def failed_tasks(
    database: sqlite3.Connection, *, limit: int, offset: int = 0
) -> list[dict[str, Any]]:
    """Task attempts with an error, the first failure first."""
    page = (
        f"SELECT * FROM tasks INDEXED BY failed_tasks WHERE error_type IS NOT NULL"  # noqa: S608
        f" ORDER BY coalesce({_FAILED}, {_FINISHED}, 0), rowid LIMIT ? OFFSET ?"
    )
    words = Words(database)
    rows = database.execute(page, (min(limit, MAX_ROWS), offset)).fetchall()
    return [task_row(row, words, detail=True) for row in rows]


def task_attempt(
    database: sqlite3.Connection, task_id: str, attempt: int | None
) -> sqlite3.Row | None:
    """One attempt; None for `attempt`: the latest."""
    try:
        plain = bytes.fromhex(task_id)
    except ValueError:
        return None
    query = (
        "SELECT * FROM tasks WHERE task_id = ? AND (? IS NULL OR attempt = ?) ORDER BY attempt DESC"
    )
    found: sqlite3.Row | None = database.execute(query, (plain, attempt, attempt)).fetchone()
    return found


def _where(
    database: sqlite3.Connection, filters: Sequence[Filter], *, drivers: bool
) -> tuple[str, list[object]]:
    clauses: list[str] = []
    values: list[object] = []
    if not drivers:
        clauses.append(_NO_DRIVERS)
    for one in filters:
        if one.predicate not in ("=", "!="):
            raise FilterError(f"predicate {one.predicate!r}: must be = or !=")
        operator = "IS" if one.predicate == "=" else "IS NOT"
        column, value = _column(database, one)
        clauses.append(f"{column} {operator} ?")
        values.append(value)
    return (f" WHERE {' AND '.join(clauses)}" if clauses else ""), values


def _column(database: sqlite3.Connection, one: Filter) -> tuple[str, object]:
    if one.key == "state":
        upper = one.value.upper()
        return "state", TASK_STATES.index(upper) if upper in TASK_STATES else -1
    if one.key == "attempt_number":
        return "attempt", int(one.value) if one.value.isdecimal() else -1
    if one.key in _BYTES_FILTERS:
        try:
            return _BYTES_FILTERS[one.key], bytes.fromhex(one.value)
        except ValueError:
            return _BYTES_FILTERS[one.key], b"?"
    if one.key in _WORD_FILTERS:
        found = database.execute("SELECT id FROM words WHERE word = ?", (one.value,)).fetchone()
        return _WORD_FILTERS[one.key], found[0] if found else -1
    raise FilterError(f"filter {one.key!r}: tasks have {', '.join(TASK_FILTERS)}")


class Words:
    """Interned words by number."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._known: dict[int, str] = {}

    def __call__(self, number: int | None) -> str | None:
        if number is None:
            return None
        if (known := self._known.get(number)) is not None:
            return known
        row = self._database.execute("SELECT word FROM words WHERE id = ?", (number,)).fetchone()
        word: str = row[0] if row else ""
        self._known[number] = word
        return word


def task_row(row: sqlite3.Row, words: Words, *, detail: bool) -> dict[str, Any]:
    created = min((row[one] for one in _CREATED if row[one]), default=None)
    found = {
        "task_id": row["task_id"].hex(),
        "attempt_number": row["attempt"],
        "name": words(row["name"]) or "",
        "state": TASK_STATES[row["state"]],
        "job_id": _hex(row["job"]),
        "actor_id": words(row["actor"]),
        "type": words(row["type"]),
        "func_or_class_name": words(row["func"]) or "",
        "parent_task_id": _hex(row["parent"]),
        "node_id": words(row["node"]),
        "worker_id": words(row["worker"]),
        "worker_pid": row["pid"],
        "error_type": words(row["error_type"]),
        "creation_time_ms": created,
        "start_time_ms": row[_RUNNING],
        "end_time_ms": row[_FINISHED] or row[_FAILED],
    }
    return found | _detail(row, words) if detail else found


def _detail(row: sqlite3.Row, words: Words) -> dict[str, Any]:
    reached = ((TASK_STATES[n + 1], row[one]) for n, one in enumerate(STATE_COLUMNS) if row[one])
    return {
        "language": words(row["language"]),
        "required_resources": _json(words(row["resources"])),
        "runtime_env_info": {"serialized_runtime_env": words(row["runtime_env"]) or "{}"},
        "placement_group_id": words(row["placement_group"]),
        "events": [{"state": state, "created_ms": at} for state, at in sorted(reached, key=lambda one: one[1])],
        "profiling_data": {"component_type": "worker", "component_id": words(row["worker"]), "events": profile(row, words)},
        "task_log_info": _log_info(row, words),
        "error_message": row["error"],
        "is_debugger_paused": None,
        "call_site": None,
        "label_selector": {},
    }  # fmt: skip


def profile(row: sqlite3.Row, words: Words) -> list[dict[str, Any]]:
    return [
        {
            "event_name": words(name) or "",
            "start_time": start / 1000,
            "end_time": (start + took) / 1000,
            "extra_data": {},
        }
        for name, start, took in read_profile(row["profile"] or b"")
    ]


def _log_info(row: sqlite3.Row, words: Words) -> dict[str, Any] | None:
    if row["out_file"] is None and row["err_file"] is None:
        return None
    return {
        "stdout_file": words(row["out_file"]),
        "stderr_file": words(row["err_file"]),
        "stdout_start": row["out_start"],
        "stdout_end": row["out_end"],
        "stderr_start": row["err_start"],
        "stderr_end": row["err_end"],
    }


def _hex(value: bytes | None) -> str | None:
    return value.hex() if value else None


def _json(text: str | None) -> Any:
    return msgspec.json.decode(text) if text else {}


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
    logs = database.execute(
        "SELECT count(DISTINCT pod || path), coalesce(sum(end - start), 0) FROM logs"
    )
    files, size = logs.fetchone()
    facts = dict(database.execute("SELECT name, value FROM facts"))
    return {"tasks": by_state, **number, "log_files": files, "log_bytes": size, **facts}
