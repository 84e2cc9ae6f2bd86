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

_Conditions = list[tuple[str, str]]
"""Type and status of each."""


class TextThrottle:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._written: OrderedDict[Owner, tuple[float, _Conditions]] = OrderedDict()
        """When the status of an object was written last, while an action failed, and its conditions: KubeRay's CRDs drop
        those of some kinds."""

    def delay(self, owner: Owner, old: Status, new: Status) -> timedelta:
        """How long to hold back the new status."""
        if owner not in self._written:
            return timedelta(0)
        written_at, written = self._written[owner]
        (old_conditions, old_rest), (conditions, rest) = _without_texts(old), _without_texts(new)
        if rest != old_rest or conditions not in (old_conditions, written):
            return timedelta(0)
        left = written_at + REFRESH_SECONDS - self._clock.monotonic()
        return timedelta(seconds=max(left, 0.0))

    def wrote(self, owner: Owner, status: Status) -> None:
        conditions, _ = _without_texts(status)
        self._written[owner] = (self._clock.monotonic(), conditions)
        self._written.move_to_end(owner)
        while len(self._written) > MAX_REMEMBERED:
            self._written.popitem(last=False)

    def forget(self, owner: Owner) -> None:
        """Nothing fails any more: the next failure is shown at once."""
        self._written.pop(owner, None)


def _without_texts(status: Status) -> tuple[_Conditions, dict[str, Any]]:
    """The conditions, and the rest. An empty field is as good as none: a server may drop it."""
    plain: dict[str, Any] = msgspec.to_builtins(status)
    conditions = [
        (one.get("type", ""), one.get("status", "")) for one in plain.get("conditions") or ()
    ]
    texts = ("message", "lastUpdateTime", "conditions")
    return conditions, {k: v for k, v in plain.items() if v and k not in texts}
