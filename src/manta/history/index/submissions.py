"""Submitted jobs and log events, from the files below `logs/events` and `logs/export_events`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from manta.history.index.builder import IndexBuilder
from manta.history.json_text import read_json

_STARTED = re.compile(r"Started a ray job ([^ ]+)\.")
_COMPLETED = re.compile(r"Completed a ray job ([^ ]+) with a status ([A-Z]+)\.(.*)", re.DOTALL)
_YEAR_10_000 = 253_402_300_800_000
_OVER = ("SUCCEEDED", "FAILED", "STOPPED")


def read_event_log(builder: IndexBuilder, lines: Iterable[bytes]) -> None:
    """Add the events of a file that Ray writes, one JSON object a line. Invalid ones are counted and skipped."""
    for line in filter(bytes.strip, lines):
        with builder.skipping():
            _add_line(builder, line)


def _add_line(builder: IndexBuilder, line: bytes) -> None:
    event = read_json(msgspec.json.decode, line)
    if not isinstance(event, dict):
        return
    if event.get("source_type") == "EXPORT_SUBMISSION_JOB":
        _add_exported(builder, event.get("event_data"))
    elif "event_id" in event and "message" in event:
        _add_log_event(builder, event)


def _add_exported(builder: IndexBuilder, data: Any) -> None:
    if isinstance(data, dict) and data.get("submission_job_id"):
        builder.add_submission(
            {
                "submission_id": str(data["submission_job_id"]),
                "status": str(data.get("status", "")),
                "message": str(data.get("message", "")),
                "entrypoint": str(data.get("entrypoint", "")),
                "started": _time(data.get("start_time")),
                "ended": _time(data.get("end_time")),
            }
        )


def _add_log_event(builder: IndexBuilder, event: dict[str, Any]) -> None:
    at = _time(event.get("timestamp"), 1000) or 0.0
    message = str(event["message"])
    fields = event.get("custom_fields") or {}
    builder.add_ray_event(
        (
            str(event["event_id"]), at, str(event.get("source_type", "")), str(event.get("severity", "")),
            str(event.get("label", "")), message, str(event.get("source_hostname", "")),
            _pid(event.get("source_pid")), msgspec.json.encode(fields).decode(),
        )
    )  # fmt: skip
    if event.get("source_type") != "JOBS":
        return
    if found := _STARTED.match(message):
        builder.add_submission({"submission_id": found[1], "status": "RUNNING", "started": at})
    elif found := _COMPLETED.match(message):
        builder.add_submission(
            {
                "submission_id": found[1],
                "status": found[2],
                "message": found[3].strip() or None,
                "ended": at if found[2] in _OVER else None,
            }
        )


def _time(value: Any, milliseconds: int = 1) -> float | None:
    """Milliseconds since the epoch, of a number in units of so many; None for what is no time."""
    try:
        at = float(value) * milliseconds
    except (TypeError, ValueError, OverflowError):
        return None
    return at if 0 < at < _YEAR_10_000 else None


def _pid(value: Any) -> int:
    """0 for what is none."""
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 19 else 0
