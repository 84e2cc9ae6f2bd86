"""What the console's informers keep of each object."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.core import ObjectReference
from manta.api.meta import ObjectMeta, View


class RayObject(View, frozen=True, kw_only=True):
    """Any of the four Ray kinds: spec and status as they are."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """As `manta.client.object_state` reads it."""
        meta = self.metadata
        named = {"name": meta.name, "namespace": meta.namespace, "generation": meta.generation}
        if meta.deletion_timestamp:
            named["deletionTimestamp"] = meta.deletion_timestamp
        return {"metadata": named, "spec": self.spec, "status": self.status}


class EventSeries(View, frozen=True, kw_only=True):
    count: int = 0
    last_observed_time: str | None = None


class Event(View, frozen=True, kw_only=True):
    """A core/v1 Event."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    event_time: str | None = None
    last_timestamp: str | None = None
    series: EventSeries | None = None

    @property
    def last_seen(self) -> str:
        """Recorders write the time to one of four fields."""
        repeated = self.series.last_observed_time if self.series else None
        return (
            self.last_timestamp or repeated or self.event_time or self.metadata.creation_timestamp
        )

    @property
    def times(self) -> int:
        return (self.series.count if self.series else 0) or self.count or 1
