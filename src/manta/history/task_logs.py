"""Which log file, and which part of it, belongs to a task, an actor, a process or a name."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from typing import Literal, NamedTuple

from manta.history.index.attempts import Words
from manta.history.index.queries import task_attempt
from manta.history.logs import LogReader

_WORKER_PID = re.compile(r"(?:.*/)?worker-[0-9a-f]+-[0-9a-f]+-(\d+)\.(out|err)")


class NoLog(Exception):  # noqa: N818 - an answer, not a failure
    """There is no such log. The message says what was looked for."""


@dataclass(frozen=True, slots=True)
class LogRequest:
    node: str = ""
    """Ray node id, address or Pod; empty: any."""
    file: str = ""
    task: str = ""
    attempt: int | None = None
    actor: str = ""
    pid: int | None = None
    submission: str = ""
    suffix: Literal["out", "err"] = "out"


class LogRange(NamedTuple):
    pod: str
    path: str
    start: int = 0
    end: int | None = None


def find_log(database: sqlite3.Connection, reader: LogReader, wanted: LogRequest) -> LogRange:
    """Raises NoLog. Without any choice: the driver of the newest submitted job."""
    pod = reader.pod_of(wanted.node)
    if wanted.task:
        return _of_task(database, reader, wanted)
    if wanted.actor:
        return _of_actor(database, reader, wanted)
    if wanted.pid is not None:
        return _of_pid(reader, pod, wanted.pid, wanted.suffix)
    if wanted.file:
        return _of_file(reader, pod, wanted.file)
    return _of_driver(database, reader, wanted.submission)


def _of_file(reader: LogReader, pod: str, path: str) -> LogRange:
    pods = reader.pods_with(path)
    found = [one for one in pods if pod in ("", one)]
    if not found:
        where = f" of {pod}" if pod else ""
        raise NoLog(f"no log file {path!r}{where} is kept")
    if len(found) > 1:
        raise NoLog(
            f"{path!r} is a log file of {', '.join(found)}: name one of these Pods as the node"
        )
    return LogRange(found[0], path)


def _of_task(database: sqlite3.Connection, reader: LogReader, wanted: LogRequest) -> LogRange:
    row = task_attempt(database, wanted.task, wanted.attempt)
    if row is None:
        raise NoLog(f"no task {wanted.task}")
    words = Words(database)
    pod = _pod(reader, words(row.node))
    file, start, end = row.out_file, row.out_start, row.out_end
    if wanted.suffix == "err":
        file, start, end = row.err_file, row.err_start, row.err_end
    path = words(file)
    if path is None:
        if row.pid:
            return _of_pid(reader, pod, row.pid, wanted.suffix)
        raise NoLog(f"task {wanted.task} wrote no log that is known")
    if pod and not reader.pods_with(path):
        return LogRange(pod, path)  # nothing was written to it: empty files are not shipped
    found = _of_file(reader, pod, path)
    return LogRange(found.pod, path, start or 0, end or None)


def _of_actor(database: sqlite3.Connection, reader: LogReader, wanted: LogRequest) -> LogRange:
    row = database.execute("SELECT node_id, pid FROM actors WHERE actor_id = ?", (wanted.actor,)).fetchone()  # fmt: skip
    if row is None or not row["pid"]:
        raise NoLog(f"no actor {wanted.actor} with a process is known")
    return _of_pid(reader, _pod(reader, row["node_id"]), row["pid"], wanted.suffix)


def _pod(reader: LogReader, node_id: str | None) -> str:
    return reader.pod_of_node(node_id) or "" if node_id else ""


def _of_pid(reader: LogReader, pod: str, pid: int, suffix: str) -> LogRange:
    for one in reader.files(pod, f"*-{pid}.{suffix}"):
        found = _WORKER_PID.fullmatch(one.path)
        if found and int(found[1]) == pid:
            return LogRange(one.pod, one.path)
    raise NoLog(f"no log of a worker with pid {pid} is kept")


def _of_driver(database: sqlite3.Connection, reader: LogReader, submission: str) -> LogRange:
    if not submission:
        row = database.execute(
            "SELECT submission_id FROM submissions ORDER BY started DESC"
        ).fetchone()
        submission = row[0] if row else ""
    names = [f"job-driver-{submission}.log"] if submission else []
    names += [one.path for one in reader.files(glob="job-driver-*.log")]
    for path in names:
        pods = reader.pods_with(path)
        if pods:
            return LogRange(pods[0], path)
    raise NoLog("no log of a driver is kept: --files lists the log files")
