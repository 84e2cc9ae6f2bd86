"""How many actions of a plan are under way at once, and when it lets others go first.

One more with every success, so twice as many for every answer time, up to a limit. A plan of
hundreds also looks at how long the answers take: what makes them slower waits in a queue of the
server, where it helps nobody and holds up everyone else; so it keeps few there, but enough on the
way to a server that is far off. And it stands back while small plans are carried out: a cluster of
four Pods does not wait behind one that grows by hundreds. Standing back is limited as well, so that
neither starves the other.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

MOST_AT_ONCE = 16
"""Enough to keep a server busy."""
LARGE = 100
"""Actions. A plan with fewer is over soon enough to hold up nobody."""
COURTESY = 0.5
"""Seconds for which a large plan stands back after a small one has made something: its Pods have yet
to start, and to be told of, by the same server."""
PATIENCE = 2.0
"""Seconds for which one large plan stands back in all."""
MOST_STANDING = 2
"""Plans that stand back at once: each of them keeps one of its controller's workers, of which the
small plans need some."""

FEW_WAITING, MANY_WAITING = 0.25, 0.75
"""Requests of a large plan in the server's queue: with fewer it is given one more, with more one less."""
CHANCE = 1.3
"""Answers take now more, now less: so much above the best of them is no queue."""
NEAR = 0.006
"""Seconds for the best answers of a server next door. What they take longer elsewhere is the way."""
TAKEN = 600.0
"""Requests a second: what is on the way at this pace is no load yet."""
MOST_ON_THE_WAY = 12
"""A slow server looks like one that is far off; it must be possible to ask it for less."""
SHORTEST = 0.001
"""Seconds: what the clocks of event loops can tell."""


@dataclass(slots=True)
class Pace:
    is_large: bool
    width: int = 1
    patience: float = PATIENCE
    _heard: int = 0
    """Answers in this stage."""
    _usual: float = 0.0
    """Seconds for an answer, of late; the last ones weigh most."""
    _at_best: float = math.inf
    """The least that this has been in this stage. A first answer that was lucky makes the plan slower,
    never harder on others; with the mean of several the server had more to do than we may give it."""

    def begin_stage(self) -> None:
        """Other requests, which take another time."""
        self._heard, self._usual, self._at_best = 0, 0.0, math.inf
        if self.is_large:
            self.width = 1

    def went_well(self, seconds: float) -> None:
        if not self.is_large:
            self.width = min(self.width + 1, MOST_AT_ONCE)
            return
        self._hear(max(seconds, SHORTEST))
        waiting = self._waiting()
        if waiting < FEW_WAITING:
            self.width = min(self.width + 1, MOST_AT_ONCE)
        elif waiting > MANY_WAITING and self.width > self._on_the_way():
            self.width -= 1

    def _hear(self, seconds: float) -> None:
        self._heard += 1
        self._usual += (seconds - self._usual) / min(self._heard, 8)
        self._at_best = min(self._at_best, self._usual)

    def _waiting(self) -> float:
        """How many of those under way are not worked on, as far as the answers tell."""
        return self.width * (1 - CHANCE * self._at_best / self._usual)

    def _on_the_way(self) -> int:
        """Not made fewer than these, so that a far server always has one of them."""
        return min(1 + round(max(0.0, self._at_best - NEAR) * TAKEN), MOST_ON_THE_WAY)

    def failed(self) -> None:
        """The next stage begins slowly again."""
        self.width = 1


@dataclass(slots=True)
class Courtesy:
    """Between the plans of one performer."""

    _small: int = 0
    """Plans that are being carried out now."""
    _standing: int = 0
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
        if not pace.is_large or pace.patience <= 0 or self._standing >= MOST_STANDING:
            return
        clock = asyncio.get_running_loop().time
        began = clock()
        self._standing += 1
        try:
            async with asyncio.timeout(pace.patience):
                await self._until_nobody_small()
        except TimeoutError:
            pace.patience = 0.0
        else:
            pace.patience -= clock() - began
        finally:
            self._standing -= 1

    async def _until_nobody_small(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._small or clock() < self._until:
            if self._small:
                await self._over.wait()
            else:
                await asyncio.sleep(self._until - clock())
