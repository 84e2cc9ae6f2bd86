"""Views of the events.k8s.io group: the Events that controllers leave behind."""

from __future__ import annotations

from manta.api.core import EventSource, ObjectReference
from manta.api.meta import ObjectMeta, View


class EventSeries(View, frozen=True, kw_only=True):
    count: int = 0
    last_observed_time: str | None = None


class Event(View, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    event_time: str | None = None
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    type: str = ""
    reason: str = ""
    action: str = ""
    note: str = ""
    reporting_controller: str = ""
    reporting_instance: str = ""
    series: EventSeries | None = None
    deprecated_source: EventSource = EventSource()
    deprecated_count: int = 0
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
