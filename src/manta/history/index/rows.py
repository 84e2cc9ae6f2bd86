"""Rows of an index, from events. Pure, but for the interned words."""

from __future__ import annotations

import binascii
import struct
from base64 import b64decode
from collections.abc import Callable
from typing import Final

import msgspec

from manta.history.events import (
    RayEvent,
    TaskDefinition,
    TaskLifecycle,
    TaskProfile,
    Transition,
    death_reason,
    function_name,
    hex_id,
    milliseconds,
)
from manta.history.index.schema import STATE_COLUMNS, TASK_STATES

_STATE_NUMBERS: Final = {name: number for number, name in enumerate(TASK_STATES)}
_PROFILE: Final = struct.Struct("<IQI")
"""Word of the name, start in microseconds since the epoch, duration in microseconds."""
PROFILE_BYTES: Final = 1000 * _PROFILE.size
"""The profile of one task. Ray keeps 1,000 entries of each task, too."""
MAX_ERROR_CHARACTERS: Final = 16_384
Word = Callable[[str], int | None]

TASK_COLUMNS: Final = (
    "task_id", "attempt", "job", "name", "func", "type", "actor", "parent", "node", "worker", "pid",
    "state", "error_type", "error", "resources", "runtime_env", "language", "placement_group", "profile",
    "out_file", "out_start", "out_end", "err_file", "err_start", "err_end", *STATE_COLUMNS,
)  # fmt: skip


class TaskRow(dict[str, object]):
    """The columns of a task attempt that are known so far."""

    def add(self, column: str, value: object) -> None:
        if value not in (None, "", b""):
            self[column] = value

    def reach(self, state: str, at: float) -> None:
        number = _STATE_NUMBERS.get(state, 0)
        if number:
            self.setdefault(f"s{number}", int(at))
            self["state"] = max(number, int(self.get("state", 0)))  # type: ignore[call-overload]

    def values_in_order(self) -> tuple[object, ...]:
        return tuple(map(self.get, TASK_COLUMNS))


def task_key(task_id: str, attempt: int) -> tuple[bytes, int] | None:
    try:
        plain = b64decode(task_id)
    except (binascii.Error, ValueError):
        return None
    return (plain, attempt) if 0 < len(plain) <= 64 else None


def define_task(row: TaskRow, task: TaskDefinition, word: Word) -> None:
    function = function_name(task.task_func or task.actor_func)
    row.add("job", _plain(task.job_id))
    row.add("name", word(task.task_name or task.actor_task_name or function))
    row.add("func", word(function or task.task_name))
    row.add("type", word(task.task_type))
    row.add("actor", word(hex_id(task.actor_id)))
    row.add("parent", _plain(task.parent_task_id))
    row.add("language", word(task.language))
    row.add("placement_group", word(hex_id(task.placement_group_id)))
    if task.required_resources:
        row.add("resources", word(msgspec.json.encode(task.required_resources).decode()))
    if task.serialized_runtime_env not in ("", "{}"):
        row.add("runtime_env", word(task.serialized_runtime_env[:MAX_ERROR_CHARACTERS]))


def change_task(row: TaskRow, task: TaskLifecycle, word: Word) -> None:
    row.add("job", _plain(task.job_id))
    row.add("node", word(hex_id(task.node_id)))
    row.add("worker", word(hex_id(task.worker_id)))
    row.add("pid", task.worker_pid or None)
    for one in task.state_transitions:
        row.reach(one.state, milliseconds(one.timestamp))
    if task.ray_error_info is not None:
        row.add("error_type", word(task.ray_error_info.error_type or "UNKNOWN"))
        row.add("error", task.ray_error_info.error_message[:MAX_ERROR_CHARACTERS])
    if task.task_log_info is not None:
        log = task.task_log_info
        row.add("out_file", word(log_path(log.stdout_file)))
        row.add("err_file", word(log_path(log.stderr_file)))
        for column in ("out_start", "out_end", "err_start", "err_end"):
            value = getattr(log, column.replace("out", "stdout").replace("err", "stderr"))
            if value >= 0:
                row[column] = max(value, row.get(column, 0) if column.endswith("end") else 0)


def profile_task(row: TaskRow, task: TaskProfile, word: Word) -> None:
    row.add("job", _plain(task.job_id))
    if "worker" not in row:
        row.add("worker", word(hex_id(task.profile_events.component_id)))
    known = row.get("profile", b"")
    assert isinstance(known, bytes)
    packed = [known]
    for one in task.profile_events.events[:1000]:
        name = word(one.event_name)
        start, end = _nanoseconds(one.start_time), _nanoseconds(one.end_time)
        if name is not None and start:
            took = min(max(end - start, 0) // 1000, 2**32 - 1)
            packed.append(_PROFILE.pack(name, start // 1000, took))
    row.add("profile", b"".join(packed)[:PROFILE_BYTES])


def read_profile(blob: bytes) -> list[tuple[int, int, int]]:
    """Word, start and duration in microseconds, in order, each once."""
    whole = len(blob) - len(blob) % _PROFILE.size
    return sorted(set(_PROFILE.iter_unpack(blob[:whole])), key=lambda one: one[1])


def log_path(path: str) -> str:
    """A path of a log file below the session's `logs`."""
    _, found, below = path.partition("/logs/")
    return below if found else path.rpartition("/")[2]


def _nanoseconds(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 20 else 0


def _plain(text: str) -> bytes | None:
    try:
        plain = b64decode(text)
    except (binascii.Error, ValueError):
        return None
    return plain if 0 < len(plain) <= 64 and plain != b"\xff" * len(plain) else None


# ── everything but tasks ─────────────────────────────────────────────────────────────────
Change = tuple[str, str, dict[str, object]]
"""Table, id, and columns to set."""


def changes(event: RayEvent) -> list[Change]:
    """What an event that is about no task changes."""
    if event.actor_definition_event is not None:
        actor = event.actor_definition_event
        return [("actors", hex_id(actor.actor_id), _set(
            job_id=hex_id(actor.job_id), name=actor.name, class_name=actor.class_name,
            namespace=actor.ray_namespace, detached=int(actor.is_detached),
            resources=_json(actor.required_resources), runtime_env=actor.serialized_runtime_env[:MAX_ERROR_CHARACTERS],
            placement_group=hex_id(actor.placement_group_id), labels=_json(actor.label_selector),
            call_site=actor.call_site,
        ))]  # fmt: skip
    if event.driver_job_definition_event is not None:
        job = event.driver_job_definition_event
        metadata = job.config.metadata or {}
        return [("jobs", hex_id(job.job_id), _set(
            submission_id=metadata.get("job_submission_id", ""), entrypoint=job.entrypoint,
            driver_pid=job.driver_pid, driver_node_id=hex_id(job.driver_node_id),
            runtime_env=job.config.serialized_runtime_env[:MAX_ERROR_CHARACTERS], metadata=_json(metadata),
        ))]  # fmt: skip
    if event.node_definition_event is not None:
        node = event.node_definition_event
        return [("nodes", hex_id(node.node_id), _set(
            ip=node.node_ip_address, hostname=node.hostname, name=node.node_name,
            labels=_json(node.labels), started=milliseconds(node.start_timestamp),
        ))]  # fmt: skip
    if event.worker_definition_event is not None:
        worker = event.worker_definition_event
        return [("workers", hex_id(worker.worker_id), _set(
            node_id=hex_id(worker.node_id), pid=worker.pid, type=worker.worker_type,
        ))]  # fmt: skip
    return _lifecycle_changes(event)


def _lifecycle_changes(event: RayEvent) -> list[Change]:
    if event.actor_lifecycle_event is not None:
        actor = event.actor_lifecycle_event
        return [_actor_change(hex_id(actor.actor_id), one) for one in actor.state_transitions]
    if event.driver_job_lifecycle_event is not None:
        job = event.driver_job_lifecycle_event
        return [_timed("jobs", hex_id(job.job_id), one, "CREATED", "FINISHED") for one in job.state_transitions]  # fmt: skip
    if event.node_lifecycle_event is not None:
        node = event.node_lifecycle_event
        return [_timed("nodes", hex_id(node.node_id), one, "", "DEAD") for one in node.state_transitions]  # fmt: skip
    if event.worker_lifecycle_event is not None:
        worker = event.worker_lifecycle_event
        found = [_timed("workers", hex_id(worker.worker_id), one, "ALIVE", "DEAD") for one in worker.state_transitions]  # fmt: skip
        for _, _, columns in found:
            columns.update(_set(job_id=hex_id(worker.job_id)))
        return found
    return []


def _actor_change(actor_id: str, one: Transition) -> Change:
    at = milliseconds(one.timestamp)
    columns = _set(
        state=one.state, node_id=hex_id(one.node_id), worker_id=hex_id(one.worker_id), pid=one.pid or None,
        port=one.port or None, repr_name=one.repr_name, death=death_reason(one)[:MAX_ERROR_CHARACTERS],
        started=at if one.state == "ALIVE" else None, ended=at if one.state == "DEAD" else None,
        restarted=at if one.state == "RESTARTING" else None,
    )  # fmt: skip
    return ("actors", actor_id, columns)


def _timed(table: str, key: str, one: Transition, first: str, last: str) -> Change:
    at = milliseconds(one.timestamp)
    columns = _set(
        state=one.state,
        started=at if one.state == first else None,
        ended=at if one.state == last else None,
    )
    if table != "jobs":
        columns.update(_set(death=death_reason(one)[:MAX_ERROR_CHARACTERS]))
    if table == "nodes":
        columns.update(_set(resources=_json(one.resources)))
    if table == "workers" and one.death_info:
        columns.update(_set(exit_type=str(one.death_info.get("exitType", ""))))
    return (table, key, columns)


def _set(**columns: object) -> dict[str, object]:
    return {name: value for name, value in columns.items() if value not in (None, "")}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode() if value else ""
