"""Ray's exported events, as the agent of each Ray node posts them (Ray 2.49 and newer). Pure.

Ids are base64 in events and hexadecimal in the dashboard API. Posts are repeated after errors, so every
reader must accept an event twice.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from manta.history.json_text import read_json

Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What an index can hold."""


class _Camel(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Transition(_Camel, frozen=True):
    state: str = ""
    timestamp: str = ""
    node_id: str = ""
    worker_id: str = ""
    pid: Integer = 0
    port: Integer = 0
    repr_name: str = ""
    restart_reason: str = ""
    death_cause: dict[str, Any] | None = None
    death_info: dict[str, Any] | None = None
    resources: dict[str, float] | None = None


class TaskDefinition(_Camel, frozen=True):
    task_id: str = ""
    task_attempt: Integer = 0
    task_type: str = "ACTOR_TASK"
    task_name: str = ""
    actor_task_name: str = ""
    task_func: dict[str, Any] | None = None
    actor_func: dict[str, Any] | None = None
    job_id: str = ""
    actor_id: str = ""
    parent_task_id: str = ""
    placement_group_id: str = ""
    required_resources: dict[str, float] | None = None
    serialized_runtime_env: str = ""
    language: str = ""


class RayErrorInfo(_Camel, frozen=True):
    error_message: str = ""
    error_type: str = ""


class TaskLogInfo(_Camel, frozen=True):
    stdout_file: str = ""
    stderr_file: str = ""
    stdout_start: Integer = 0
    stdout_end: Integer = -1
    stderr_start: Integer = 0
    stderr_end: Integer = -1


class TaskLifecycle(_Camel, frozen=True):
    task_id: str = ""
    task_attempt: Integer = 0
    state_transitions: tuple[Transition, ...] = ()
    ray_error_info: RayErrorInfo | None = None
    task_log_info: TaskLogInfo | None = None
    job_id: str = ""
    node_id: str = ""
    worker_id: str = ""
    worker_pid: Integer = 0


class ProfileEntry(_Camel, frozen=True):
    start_time: str = "0"
    end_time: str = "0"
    event_name: str = ""


class Profile(_Camel, frozen=True):
    component_type: str = ""
    component_id: str = ""
    node_ip_address: str = ""
    events: tuple[ProfileEntry, ...] = ()


class TaskProfile(_Camel, frozen=True):
    task_id: str = ""
    attempt_number: Integer = 0
    job_id: str = ""
    profile_events: Profile = Profile()


class ActorDefinition(_Camel, frozen=True):
    actor_id: str = ""
    job_id: str = ""
    is_detached: bool = False
    name: str = ""
    ray_namespace: str = ""
    class_name: str = ""
    serialized_runtime_env: str = ""
    required_resources: dict[str, float] | None = None
    placement_group_id: str = ""
    label_selector: dict[str, str] | None = None
    call_site: str = ""


class Lifecycle(_Camel, frozen=True):
    """The states of an actor, a job, a node or a worker."""

    actor_id: str = ""
    job_id: str = ""
    node_id: str = ""
    worker_id: str = ""
    state_transitions: tuple[Transition, ...] = ()


class JobConfig(_Camel, frozen=True):
    serialized_runtime_env: str = ""
    metadata: dict[str, str] | None = None


class JobDefinition(_Camel, frozen=True):
    job_id: str = ""
    driver_pid: str = ""
    driver_node_id: str = ""
    entrypoint: str = ""
    config: JobConfig = JobConfig()


class NodeDefinition(_Camel, frozen=True):
    node_id: str = ""
    node_ip_address: str = ""
    labels: dict[str, str] | None = None
    start_timestamp: str = ""
    hostname: str = ""
    node_name: str = ""


class WorkerDefinition(_Camel, frozen=True):
    worker_id: str = ""
    node_id: str = ""
    pid: Integer = 0
    worker_type: str = ""


class RayEvent(_Camel, frozen=True):
    event_id: str = ""
    event_type: str = ""
    timestamp: str = ""
    session_name: str = ""
    node_id: str = ""
    task_definition_event: TaskDefinition | None = None
    actor_task_definition_event: TaskDefinition | None = None
    task_lifecycle_event: TaskLifecycle | None = None
    task_profile_events: TaskProfile | None = None
    actor_definition_event: ActorDefinition | None = None
    actor_lifecycle_event: Lifecycle | None = None
    driver_job_definition_event: JobDefinition | None = None
    driver_job_lifecycle_event: Lifecycle | None = None
    node_definition_event: NodeDefinition | None = None
    node_lifecycle_event: Lifecycle | None = None
    worker_definition_event: WorkerDefinition | None = None
    worker_lifecycle_event: Lifecycle | None = None


class _Posted(_Camel, frozen=True):
    session_name: str = ""


_decode_array = msgspec.json.Decoder(tuple[RayEvent, ...], strict=False).decode
_decode_one = msgspec.json.Decoder(RayEvent, strict=False).decode
_decode_parts = msgspec.json.Decoder(tuple[msgspec.Raw, ...]).decode
_decode_posted = msgspec.json.Decoder(tuple[_Posted, ...]).decode


def read_line(line: bytes) -> tuple[RayEvent, ...]:
    """The events of one line: an array as it was posted, or a single event. Raises ValueError."""
    line = line.strip()
    if not line:
        return ()
    if line.startswith(b"["):
        return read_json(_decode_array, line)
    return (read_json(_decode_one, line),)


def split_line(line: bytes) -> list[bytes]:
    """The events of an array, each as it was posted; none if the line is no array at all."""
    try:
        return [bytes(part) for part in read_json(_decode_parts, line)]
    except ValueError:
        return []


def posted_session(body: bytes) -> str:
    """The session of a posted array; empty for an empty array. Raises ValueError if it is no array."""
    posted = read_json(_decode_posted, body)
    return next((one.session_name for one in posted if one.session_name), "")


def hex_id(text: str) -> str:
    """An id as the dashboard API writes it; empty for none, and for `nil` ids of ones only."""
    if not text:
        return ""
    try:
        plain = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ""
    return "" if plain == b"\xff" * len(plain) else plain.hex()


def milliseconds(timestamp: str) -> float:
    """`2026-01-31T12:00:00.123456789Z` as milliseconds since the epoch; 0 for what is no time."""
    return _microseconds(timestamp) / 1000


def _microseconds(timestamp: str) -> int:
    if len(timestamp) < 20 or timestamp[-1] != "Z":
        return 0
    try:
        seconds = _epoch_minute(timestamp[:16]) * 60 + int(timestamp[17:19])
        fraction = timestamp[20:-1][:6].ljust(6, "0") if timestamp[19] == "." else "0"
        return seconds * 1_000_000 + int(fraction)
    except ValueError:
        return 0


_minutes: dict[str, int] = {}


def _epoch_minute(text: str) -> int:
    """Minutes since the epoch of `2026-01-31T12:00`: cached, because millions of events share few."""
    known = _minutes.get(text)
    if known is None:
        from datetime import datetime

        known = int(datetime.fromisoformat(f"{text}:00+00:00").timestamp()) // 60
        if len(_minutes) > 10_000:
            _minutes.clear()
        _minutes[text] = known
    return known


def function_name(function: dict[str, Any] | None) -> str:
    """`Class.method`, `function` or the C++ or Java name of a function descriptor."""
    for descriptor in (function or {}).values():
        if isinstance(descriptor, dict):
            parts = (descriptor.get("className"), descriptor.get("functionName"))
            return ".".join(str(one) for one in parts if one)
    return ""


def death_reason(transition: Transition) -> str:
    """Why an actor, node or worker died."""
    info = transition.death_info or {}
    if info:
        return str(info.get("exitDetail") or info.get("reasonMessage") or info.get("reason") or "")
    for cause in _causes(transition.death_cause):
        for name in ("errorMessage", "formattedException", "message"):
            if cause.get(name):
                return str(cause[name])
    return ""


def _causes(cause: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    for one in (cause or {}).values():
        if isinstance(one, dict):
            yield one
