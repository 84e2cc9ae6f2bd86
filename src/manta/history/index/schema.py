"""The tables of an index. An index of another version is rebuilt from the stored events."""

from __future__ import annotations

from typing import Final

VERSION: Final = 1
TASK_STATES: Final = (
    "NIL",
    "PENDING_ARGS_AVAIL",
    "PENDING_NODE_ASSIGNMENT",
    "PENDING_OBJ_STORE_MEM_AVAIL",
    "PENDING_ARGS_FETCH",
    "SUBMITTED_TO_WORKER",
    "PENDING_ACTOR_TASK_ARGS_FETCH",
    "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY",
    "GETTING_AND_PINNING_ARGS",
    "RUNNING",
    "RUNNING_IN_RAY_GET",
    "RUNNING_IN_RAY_WAIT",
    "FINISHED",
    "FAILED",
)
"""In the order in which a task passes them: the last one reached is its state."""

STATE_COLUMNS: Final = tuple(f"s{number}" for number in range(1, len(TASK_STATES)))
"""When the task reached each state, in milliseconds since the epoch."""

_TABLES: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT UNIQUE);
CREATE TABLE tasks (
  task_id BLOB NOT NULL, attempt INTEGER NOT NULL, job BLOB, name INTEGER, func INTEGER, type INTEGER,
  actor INTEGER, parent BLOB, node INTEGER, worker INTEGER, pid INTEGER, state INTEGER NOT NULL,
  error_type INTEGER, error TEXT, resources INTEGER, runtime_env INTEGER, language INTEGER,
  placement_group INTEGER, profile BLOB,
  out_file INTEGER, out_start INTEGER, out_end INTEGER, err_file INTEGER, err_start INTEGER, err_end INTEGER,
  {states},
  UNIQUE (task_id, attempt)
);
CREATE TABLE actors (
  actor_id TEXT PRIMARY KEY, job_id TEXT, name TEXT, class_name TEXT, namespace TEXT, detached INTEGER,
  state TEXT, node_id TEXT, worker_id TEXT, pid INTEGER, port INTEGER, repr_name TEXT,
  started REAL, ended REAL, death TEXT, resources TEXT, runtime_env TEXT, placement_group TEXT,
  labels TEXT, call_site TEXT
) WITHOUT ROWID;
CREATE TABLE restarts (actor_id TEXT, at REAL, PRIMARY KEY (actor_id, at)) WITHOUT ROWID;
CREATE TABLE jobs (
  job_id TEXT PRIMARY KEY, submission_id TEXT, entrypoint TEXT, driver_pid TEXT, driver_node_id TEXT,
  runtime_env TEXT, metadata TEXT, state TEXT, started REAL, ended REAL
) WITHOUT ROWID;
CREATE TABLE submissions (
  submission_id TEXT PRIMARY KEY, status TEXT, message TEXT, entrypoint TEXT, started REAL, ended REAL
) WITHOUT ROWID;
CREATE TABLE nodes (
  node_id TEXT PRIMARY KEY, ip TEXT, hostname TEXT, name TEXT, labels TEXT, resources TEXT, state TEXT,
  started REAL, ended REAL, death TEXT, pod TEXT
) WITHOUT ROWID;
CREATE TABLE workers (
  worker_id TEXT PRIMARY KEY, node_id TEXT, job_id TEXT, pid INTEGER, type TEXT, state TEXT,
  started REAL, ended REAL, exit_type TEXT, death TEXT
) WITHOUT ROWID;
CREATE TABLE pods (pod TEXT, node_id TEXT, role TEXT, PRIMARY KEY (pod, node_id)) WITHOUT ROWID;
CREATE TABLE logs (
  pod TEXT, path TEXT, generation INTEGER, inode INTEGER, start INTEGER, end INTEGER, key TEXT,
  PRIMARY KEY (pod, path, generation, start, end)
) WITHOUT ROWID;
CREATE TABLE ray_events (id TEXT PRIMARY KEY, at REAL, source TEXT, severity TEXT, label TEXT, message TEXT,
  hostname TEXT, pid INTEGER, fields TEXT) WITHOUT ROWID;
CREATE TABLE counts (job BLOB, func INTEGER, type INTEGER, state INTEGER, count INTEGER);
"""

TABLES: Final = _TABLES.replace("{states}", ", ".join(f"{one} INTEGER" for one in STATE_COLUMNS))

AFTER_TASKS: Final = """
CREATE INDEX tasks_by_job ON tasks (job, state);
CREATE INDEX failed_tasks ON tasks (job) WHERE error_type IS NOT NULL;
INSERT INTO counts SELECT job, func, type, state, count(*) FROM tasks GROUP BY job, func, type, state;
"""
