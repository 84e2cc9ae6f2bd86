"""Task attempts: rows of `tasks`, in the words of Ray's state API.

A page may have 10,000 of them, so rows are plain tuples and what repeats is decoded once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from manta.history.index.rows import TASK_COLUMNS, read_profile
from manta.history.index.schema import STATE_COLUMNS, TASK_STATES

_PLAIN: Final = len(TASK_COLUMNS) - len(STATE_COLUMNS)
SELECT: Final = f"SELECT {', '.join(TASK_COLUMNS)} FROM tasks"  # noqa: S608 - our own names
_RUNNING, _FINISHED, _FAILED = (TASK_STATES.index(one) - 1 for one in ("RUNNING", "FINISHED", "FAILED"))  # fmt: skip
_CREATED: Final = (0, 1, 4, _RUNNING)
_NAMES: Final = TASK_STATES[1:]


class Attempt(NamedTuple):
    """A row of `tasks`, in the order of TASK_COLUMNS. Names, functions and ids are numbers of words."""

    task_id: bytes
    attempt: int
    job: bytes | None
    name: int | None
    func: int | None
    type: int | None
    actor: int | None
    parent: bytes | None
    node: int | None
    worker: int | None
    pid: int | None
    state: int
    error_type: int | None
    error: str | None
    resources: int | None
    runtime_env: int | None
    language: int | None
    placement_group: int | None
    profile: bytes | None
    out_file: int | None
    out_start: int | None
    out_end: int | None
    err_file: int | None
    err_start: int | None
    err_end: int | None
    reached: tuple[int | None, ...]
    """When it reached each state, from TASK_STATES[1] on, in milliseconds since the epoch."""


def attempts(
    database: sqlite3.Connection, after_select: str, values: Sequence[object] = ()
) -> Iterator[Attempt]:
    """The rows of `SELECT ... FROM tasks <after_select>`, read while they are iterated over."""
    cursor = database.cursor()
    cursor.row_factory = None
    for row in cursor.execute(f"{SELECT} {after_select}", values):
        yield Attempt._make((*row[:_PLAIN], row[_PLAIN:]))


class Words:
    """Interned words by number."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._known: dict[int | None, str | None] = {None: None}
        self._objects: dict[int | None, Any] = {None: {}}

    def __call__(self, number: int | None) -> str | None:
        try:
            return self._known[number]
        except KeyError:
            found = self._database.execute("SELECT word FROM words WHERE id = ?", (number,))
            row = found.fetchone()
            word: str = row[0] if row else ""
            self._known[number] = word
            return word

    def json(self, number: int | None) -> Any:
        """The word as a JSON object."""
        if number not in self._objects:
            self._objects[number] = msgspec.json.decode(self(number) or "{}")
        return self._objects[number]


def task(row: Attempt, words: Words, *, detail: bool) -> dict[str, Any]:
    """The task as `api/v0/tasks` shows it."""
    reached = row.reached
    found: dict[str, Any] = {
        "task_id": row.task_id.hex(),
        "attempt_number": row.attempt,
        "name": words(row.name) or "",
        "state": TASK_STATES[row.state],
        "job_id": row.job.hex() if row.job else None,
        "actor_id": words(row.actor),
        "type": words(row.type),
        "func_or_class_name": words(row.func) or "",
        "parent_task_id": row.parent.hex() if row.parent else None,
        "node_id": words(row.node),
        "worker_id": words(row.worker),
        "worker_pid": row.pid,
        "error_type": words(row.error_type),
        "creation_time_ms": min((at for one in _CREATED if (at := reached[one])), default=None),
        "start_time_ms": reached[_RUNNING],
        "end_time_ms": reached[_FINISHED] or reached[_FAILED],
    }
    if detail:
        found |= _detail(row, words)
    return found


def _detail(row: Attempt, words: Words) -> dict[str, Any]:
    events = [{"state": name, "created_ms": at} for name, at in zip(_NAMES, row.reached, strict=True) if at]  # fmt: skip
    events.sort(key=_created)
    return {
        "language": words(row.language),
        "required_resources": words.json(row.resources),
        "runtime_env_info": {"serialized_runtime_env": words(row.runtime_env) or "{}"},
        "placement_group_id": words(row.placement_group),
        "events": events,
        "profiling_data": {"component_type": "worker", "component_id": words(row.worker), "events": profile(row, words)},
        "task_log_info": _log_info(row, words),
        "error_message": row.error,
        "is_debugger_paused": None,
        "call_site": None,
        "label_selector": {},
    }  # fmt: skip


def _created(event: dict[str, Any]) -> int:
    created: int = event["created_ms"]
    return created


def profile(row: Attempt, words: Words) -> list[dict[str, Any]]:
    """What the worker did for the task, in milliseconds since the epoch."""
    return [
        {
            "event_name": words(name) or "",
            "start_time": start / 1000,
            "end_time": (start + took) / 1000,
            "extra_data": {},
        }
        for name, start, took in read_profile(row.profile or b"")
    ]


def _log_info(row: Attempt, words: Words) -> dict[str, Any] | None:
    if row.out_file is None and row.err_file is None:
        return None
    return {
        "stdout_file": words(row.out_file),
        "stderr_file": words(row.err_file),
        "stdout_start": row.out_start,
        "stdout_end": row.out_end,
        "stderr_start": row.err_start,
        "stderr_end": row.err_end,
    }
