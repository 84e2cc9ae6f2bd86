"""Walks along schedules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from manta.api.schedule import Schedule


def ticks(schedule: Schedule, after: datetime, until: datetime) -> Iterator[datetime]:
    """Every tick later than `after` and not later than `until`, in order."""
    tick = schedule.next_after(after)
    while tick is not None and tick <= until:
        yield tick
        tick = schedule.next_after(tick)
