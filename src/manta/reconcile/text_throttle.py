"""Holds back a status that only says in other words what fails.

The text of an error may differ at each attempt: the port of a connection, the id of a request, a time. The watch event of a
status write is the next attempt, so that a write for each text would repeat the attempt without any pause.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from typing import Any

import msgspec

from manta.reconcile.status_writer import Status
from manta.runtime.clock import Clock
from manta.runtime.failures import MAX_REMEMBERED, REFRESH_SECONDS
from manta.runtime.freshness import Owner


class TextThrottle:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._written_at: OrderedDict[Owner, float] = OrderedDict()
        """When the status of an object was written last, while an action failed."""

    def delay(self, owner: Owner, old: Status, new: Status) -> timedelta:
        """How long to hold back the new status."""
        written_at = self._written_at.get(owner)
        if written_at is None or _without_texts(old) != _without_texts(new):
            return timedelta(0)
        left = written_at + REFRESH_SECONDS - self._clock.monotonic()
        return timedelta(seconds=max(left, 0.0))

    def wrote(self, owner: Owner) -> None:
        self._written_at[owner] = self._clock.monotonic()
        self._written_at.move_to_end(owner)
        while len(self._written_at) > MAX_REMEMBERED:
            self._written_at.popitem(last=False)

    def forget(self, owner: Owner) -> None:
        """Nothing fails any more: the next failure is shown at once."""
        self._written_at.pop(owner, None)


def _without_texts(status: Status) -> dict[str, Any]:
    """An empty field is as good as none: a server may drop it."""
    plain: dict[str, Any] = msgspec.to_builtins(status)
    conditions = [(one.get("type"), one.get("status")) for one in plain.get("conditions") or ()]
    texts = ("message", "lastUpdateTime", "conditions")
    return {
        "conditions": conditions,
        **{name: value for name, value in plain.items() if value and name not in texts},
    }
