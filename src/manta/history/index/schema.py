"""The tables of an index. An index of another version is rebuilt from the stored events."""

from __future__ import annotations

from typing import Final

VERSION: Final = 5
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
  PRIMARY KEY (pod, path, generation, inode, start, end)
) WITHOUT ROWID;
CREATE TABLE log_files (pod TEXT, path TEXT, size INTEGER, PRIMARY KEY (pod, path)) WITHOUT ROWID;
CREATE TABLE ray_events (id TEXT PRIMARY KEY, at REAL, source TEXT, severity TEXT, label TEXT, message TEXT,
  hostname TEXT, pid INTEGER, fields TEXT) WITHOUT ROWID;
CREATE TABLE answers (uri TEXT PRIMARY KEY, path TEXT, at INTEGER, body BLOB) WITHOUT ROWID;
CREATE TABLE counts (job BLOB, func INTEGER, type INTEGER, state INTEGER, count INTEGER);
"""

TABLES: Final = _TABLES.replace("{states}", ", ".join(f"{one} INTEGER" for one in STATE_COLUMNS))

DRIVER: Final = 1
"""The word `DRIVER_TASK`, the first one of every index: a partial index needs its number."""
FILTER_COLUMNS: Final = ("job", "name", "func", "node", "worker", "actor", "error_type")
"""Each has an index, in which rows with the same value are in the order of their rowid."""
COUNTED_COLUMNS: Final = ("job", "func", "type", "state")
"""The columns of the table `counts`: it answers how many tasks match filters of these, without reading tasks."""
_INDEXES: Final = "".join(
    f"CREATE INDEX tasks_by_{one} ON tasks ({one}) WHERE {one} IS NOT NULL;\n"
    for one in FILTER_COLUMNS
)

_AFTER_TASKS: Final = """
{indexes}
CREATE INDEX tasks_by_state ON tasks (state);
CREATE INDEX drivers ON tasks (type) WHERE type = {driver};
INSERT INTO counts SELECT job, func, type, state, count(*) FROM tasks GROUP BY job, func, type, state;
INSERT INTO log_files SELECT pod, path, sum(size) FROM
  (SELECT pod, path, max(end) AS size FROM logs GROUP BY pod, path, generation, inode) GROUP BY pod, path;
PRAGMA analysis_limit = 1000;
ANALYZE;
"""
AFTER_TASKS: Final = _AFTER_TASKS.format(indexes=_INDEXES, driver=DRIVER)
