"""Events of `events.k8s.io/v1` are stored as core `v1`: the same fields under other names."""

from __future__ import annotations

from typing import Any

EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)

NEW_EVENT_FIELDS = (
    *(name.replace("involvedObject", "regarding") for name in EVENT_FIELDS),
    "reportingController",
)

ALL_EVENT_FIELDS = tuple(dict.fromkeys((*EVENT_FIELDS, *NEW_EVENT_FIELDS)))
"""The fields of both groups: they share records, and with them the cached fields of a record."""

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
