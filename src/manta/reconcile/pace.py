"""How many actions of a plan are under way at once, and when it lets others go first.

One more with every success, so twice as many for every answer time, up to a limit. A plan of
hundreds also looks at how long the answers take: what makes them slower waits in a queue of the
server, where it helps nobody and holds up everyone else; so it keeps few there. And it stands back
while small plans are carried out: a cluster of four Pods does not wait behind one that grows by
hundreds. Standing back is limited as well, so that neither starves the other.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

MOST_AT_ONCE = 16
"""Enough to keep a server busy. A plan with more actions than this is large."""
COURTESY = 0.5
"""Seconds for which a large plan stands back after a small one has made something: its Pods have yet
to start, and to be told of, by the same server."""
PATIENCE = 2.0
"""Seconds for which one large plan stands back in all."""


FEW_WAITING, MANY_WAITING = 1.0, 2.0
"""Requests of a large plan in the server's queue: with fewer it is given one more, with more one less."""


@dataclass(slots=True)
class Pace:
    is_large: bool
    width: int = 1
    patience: float = PATIENCE
    _quickest: float = math.inf
    """Seconds for an answer: for the one that had the least to wait for."""
    _usual: float = 0.0
    """The same for those of late, the last one weighing most."""

    def went_well(self, seconds: float) -> None:
        waiting = self._waiting(seconds) if self.is_large else 0.0
        if waiting < FEW_WAITING:
            self.width = min(self.width + 1, MOST_AT_ONCE)
        elif waiting > MANY_WAITING:
            self.width -= 1

    def _waiting(self, seconds: float) -> float:
        """How many of those under way are not worked on, as far as the answers tell."""
        self._quickest = min(self._quickest, seconds)
        self._usual = (3 * (self._usual or seconds) + seconds) / 4
        return self.width * (1 - self._quickest / self._usual) if self._usual else 0.0

    def failed(self) -> None:
        """The next stage begins slowly again."""
        self.width = 1


@dataclass(slots=True)
class Courtesy:
    """Between the plans of one performer."""

    _small: int = 0
    """Plans that are being carried out now."""
    _until: float = 0.0
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    @contextmanager
    def owed_to_small(self, *, lingers: bool) -> Iterator[None]:
        """While a small plan is carried out, and for a moment longer where it `lingers`."""
        self._small += 1
        self._over.clear()
        try:
            yield
        finally:
            self._small -= 1
            if lingers:
                self._until = asyncio.get_running_loop().time() + COURTESY
            if not self._small:
                self._over.set()

    async def stand_back(self, pace: Pace) -> None:
        """Until no small plan is or was just carried out, or this one has been patient enough."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if not pace.is_large or pace.patience <= 0 or not (self._small or began < self._until):
            return
        try:
            async with asyncio.timeout(pace.patience):
                while self._small or loop.time() < self._until:
                    if self._small:
                        await self._over.wait()
                    else:
                        await asyncio.sleep(self._until - loop.time())
        except TimeoutError:
            pace.patience = 0.0
        else:
            pace.patience -= loop.time() - began
