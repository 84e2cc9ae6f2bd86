"""Events of both groups are one: `events.k8s.io/v1` is stored and read as core `v1`.

The two forms carry the same facts under different names; nothing is lost on the way there and
back.
"""

from __future__ import annotations

from typing import Any

_NEW_TO_OLD = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_OLD_TO_NEW = {old: new for new, old in _NEW_TO_OLD.items()}


def to_stored(event: dict[str, Any]) -> dict[str, Any]:
    """The core/v1 form of an events.k8s.io/v1 Event."""
    stored = {_NEW_TO_OLD.get(name, name): value for name, value in event.items()}
    stored.setdefault("involvedObject", {})
    stored.setdefault("source", {})
    stored.setdefault("firstTimestamp", None)
    stored.setdefault("lastTimestamp", None)
    stored.setdefault("reportingInstance", "")
    return stored


def from_stored(stored: dict[str, Any]) -> dict[str, Any]:
    """The events.k8s.io/v1 form of a stored Event."""
    event = {
        _OLD_TO_NEW.get(name, name): value
        for name, value in stored.items()
        if value != "" or name not in ("reportingComponent", "reportingInstance")
    }
    event.setdefault("eventTime", None)
    event.setdefault("deprecatedSource", {})
    event.setdefault("deprecatedFirstTimestamp", None)
    event.setdefault("deprecatedLastTimestamp", None)
    return event
