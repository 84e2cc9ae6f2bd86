"""Builds the index of a session in bounded memory: events are merged in batches, then written.

An event may come twice and in any order: every change is an upsert that gives the same result.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from manta.history.events import RayEvent, read_line, split_line
from manta.history.index.rows import (
    PROFILE_BYTES,
    TASK_COLUMNS,
    Change,
    TaskRow,
    change_task,
    changes,
    define_task,
    profile_task,
    task_key,
)
from manta.history.index.schema import AFTER_TASKS, DRIVER, STATE_COLUMNS, TABLES, VERSION
from manta.history.json_text import read_json
from manta.history.layout import LogChunk

log = logging.getLogger(__name__)

_BATCH: Final = 10_000
"""Task attempts that are merged in memory."""
_WORDS: Final = 50_000
_ODD: Final = (ValueError, OverflowError, RecursionError)
"""What one odd event raises. Errors of the index file itself are not among them."""
_DRIVER_ID: Final = b"\xff" * 20
"""A driver's task id is this and the job id."""
_KEYS: Final = {"actors": "actor_id", "jobs": "job_id", "nodes": "node_id", "workers": "worker_id"}


def _upsert_tasks() -> str:
    kept = {
        "state": "max(tasks.state, excluded.state)",
        "profile": f"""CASE WHEN tasks.profile IS NULL THEN excluded.profile
          WHEN excluded.profile IS NULL OR length(tasks.profile) >= {PROFILE_BYTES} THEN tasks.profile
          ELSE CAST(tasks.profile || excluded.profile AS BLOB) END""",
        "out_end": "max(coalesce(tasks.out_end, 0), coalesce(excluded.out_end, 0))",
        "err_end": "max(coalesce(tasks.err_end, 0), coalesce(excluded.err_end, 0))",
        # A worker whose clock was set back reports the same state again later: keep the first time.
        **{one: f"min(coalesce(tasks.{one}, excluded.{one}), coalesce(excluded.{one}, tasks.{one}))" for one in STATE_COLUMNS},
    }  # fmt: skip
    sets = ", ".join(
        f"{one} = {kept.get(one, f'coalesce(excluded.{one}, tasks.{one})')}"
        for one in TASK_COLUMNS[2:]
    )
    marks = ", ".join("?" * len(TASK_COLUMNS))
    return (
        f"INSERT INTO tasks ({', '.join(TASK_COLUMNS)}) VALUES ({marks})"  # noqa: S608 - our own names
        f" ON CONFLICT (task_id, attempt) DO UPDATE SET {sets}"
    )


class IndexBuilder:
    """Creates a new index file. `close` completes it; without that it is no index."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        for pragma in (
            "journal_mode=OFF",
            "synchronous=OFF",
            "cache_size=-32768",
            "temp_store=FILE",
        ):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.executescript(TABLES)
        self._db.execute("BEGIN")
        self._tasks: dict[tuple[bytes, int], TaskRow] = {}
        self._words: dict[str, int] = {}
        self._upsert = _upsert_tasks()
        if self.word("DRIVER_TASK") != DRIVER:
            raise AssertionError("DRIVER_TASK must be the first word of an index")
        self.invalid_lines = 0

    def add_lines(self, lines: Iterable[bytes]) -> None:
        """Add posted events. A line that is cut off, and an event that is invalid, is counted and skipped."""
        for line in lines:
            for event in self._events(line):
                try:
                    self.add(event)
                except _ODD as error:
                    self._skip(error)

    def _events(self, line: bytes) -> Sequence[RayEvent]:
        """One invalid event of an array costs only itself."""
        try:
            return read_line(line)
        except ValueError as error:
            parts = split_line(line)
            if not parts:
                self._skip(error)
        events: list[RayEvent] = []
        for part in parts:
            with self.skipping():
                events += read_line(part)
        return events

    @contextlib.contextmanager
    def skipping(self) -> Iterator[None]:
        """Counts what is skipped because it is invalid, and logs the first of it."""
        try:
            yield
        except _ODD as error:
            self._skip(error)

    def _skip(self, error: Exception) -> None:
        self.invalid_lines += 1
        if self.invalid_lines == 1:
            log.warning("skipped an invalid event, and counts more of them: %s", error)

    def add(self, event: RayEvent) -> None:
        if event.task_lifecycle_event is not None:
            task = event.task_lifecycle_event
            if (row := self._row(task.task_id, task.task_attempt)) is not None:
                change_task(row, task, self.word)
        elif event.task_profile_events is not None:
            profile = event.task_profile_events
            if (row := self._row(profile.task_id, profile.attempt_number)) is not None:
                profile_task(row, profile, self.word)
        elif (
            defined := event.task_definition_event or event.actor_task_definition_event
        ) is not None:
            if (row := self._row(defined.task_id, defined.task_attempt)) is not None:
                define_task(row, defined, self.word)
        else:
            for change in changes(event):
                self._change(change)

    def _row(self, task_id: str, attempt: int) -> TaskRow | None:
        key = task_key(task_id, attempt)
        if key is None:
            return None
        row = self._tasks.get(key)
        if row is None:
            if len(self._tasks) >= _BATCH:
                self._flush()
            row = self._tasks[key] = TaskRow(task_id=key[0], attempt=attempt, state=0)
            if key[0].startswith(
                _DRIVER_ID
            ):  # its definition may have been lost before the agent ran
                row["type"] = DRIVER
        return row

    def _flush(self) -> None:
        ordered = (row.values_in_order() for _, row in self._tasks.items())
        self._db.executemany(self._upsert, ordered)
        self._tasks.clear()

    def word(self, text: str) -> int | None:
        """The number of an interned word; None for the empty one."""
        if not text:
            return None
        known = self._words.get(text)
        if known is not None:
            return known
        found = self._db.execute("SELECT id FROM words WHERE word = ?", (text,)).fetchone()
        if found is None:
            insert = "INSERT INTO words (word) VALUES (?) RETURNING id"
            found = self._db.execute(insert, (text,)).fetchone()
        number = int(found[0])
        if len(self._words) >= _WORDS:
            self._words.clear()
        self._words[text] = number
        return number

    def _change(self, change: Change) -> None:
        table, key, columns = change
        if not key:
            return
        name = _KEYS[table]
        self._db.execute(f"INSERT OR IGNORE INTO {table} ({name}) VALUES (?)", (key,))  # noqa: S608
        if (restarted := columns.pop("restarted", None)) is not None:
            self._db.execute("INSERT OR IGNORE INTO restarts VALUES (?, ?)", (key, restarted))
        for column, value in columns.items():
            self._db.execute(self._assignment(table, column), {"value": value, "key": key})

    @staticmethod
    def _assignment(table: str, column: str) -> str:
        """A final state is never left, whatever order the events have."""
        value = ":value"
        if column == "state":
            value = "CASE WHEN state IN ('DEAD', 'FINISHED') THEN state ELSE :value END"
        elif column == "started":
            value = "min(coalesce(started, :value), :value)"
        elif column == "ended":
            value = "max(coalesce(ended, :value), :value)"
        return f"UPDATE {table} SET {column} = {value} WHERE {_KEYS[table]} = :key"  # noqa: S608

    # ── what does not come from events ───────────────────────────────────────────────────
    def add_pod(self, pod: str, node_id: str, role: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO pods VALUES (?, ?, ?)", (pod, node_id, role))

    def add_log(self, chunk: LogChunk) -> None:
        row = (
            chunk.pod,
            chunk.path,
            chunk.generation,
            chunk.inode % 2**63,  # file systems use all 64 bits
            chunk.start,
            chunk.end,
            chunk.key,
        )
        self._db.execute("INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def add_submission(self, submission: dict[str, object]) -> None:
        """The latest of what the job manager of Ray wrote about a submitted job."""
        names = ("submission_id", "status", "message", "entrypoint", "started", "ended")
        self._db.execute(
            "INSERT INTO submissions VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
            " status = excluded.status, message = coalesce(excluded.message, message),"
            " entrypoint = coalesce(excluded.entrypoint, entrypoint),"
            " started = coalesce(started, excluded.started), ended = coalesce(excluded.ended, ended)",
            [submission.get(name) for name in names],
        )

    def add_answer(self, uri: str, at: int, body: bytes) -> None:
        """The latest answer of Ray's dashboard to a URI. Raises ValueError unless it is JSON."""
        read_json(msgspec.json.decode, body)
        self._db.execute(
            "INSERT INTO answers VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET at = excluded.at,"
            " body = excluded.body WHERE excluded.at >= at",
            (uri, uri.partition("?")[0].rstrip("/"), at, body),
        )

    def add_ray_event(self, row: tuple[object, ...]) -> None:
        self._db.execute("INSERT OR IGNORE INTO ray_events VALUES (?,?,?,?,?,?,?,?,?)", row)

    def add_fact(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def close(self) -> None:
        """Write what is left, the counts and the version, which marks the index as complete."""
        self._flush()
        self._db.execute(
            "UPDATE nodes SET pod = (SELECT pod FROM pods WHERE pods.node_id = nodes.node_id)"
        )
        self._db.execute("COMMIT")
        self._db.executescript(AFTER_TASKS)
        self.add_fact("invalid_lines", str(self.invalid_lines))
        self._db.execute(f"PRAGMA user_version = {VERSION}")
        self._db.close()

    def abort(self) -> None:
        self._db.close()
