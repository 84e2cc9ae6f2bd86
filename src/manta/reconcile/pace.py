"""How many actions of a plan are tried at once. Pure: it is told what became of each batch.

Twice as many as before while all goes well. A plan of hundreds watches the rate as well: where
twice as many at once are not faster, the server is busy, and a longer queue there helps nobody
and holds up everyone else's requests; so it goes back, and tries again a little later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

MOST_AT_ONCE = 16
"""Enough to keep a server busy. A plan with more actions than this is large."""
MOST_BESIDE_SMALL = 2
"""Of a large plan, while a small one is carried out: a cluster of four Pods does not wait behind one
that grows by hundreds."""
COURTESY = 0.5
"""Seconds for which it goes on so afterwards: the Pods of the small one have yet to start, and to
be told of, by the same server."""
MOST_TIMES_GIVEN_WAY = 10
"""In a row: small plans that follow each other without end, or hang, do not starve a large one."""
FASTER = 1.2
"""Times the rate that twice the width must bring to be worth it."""
CONTENT = 8
"""Batches for which a width that was not worth doubling is kept."""


@dataclass(slots=True)
class Pace:
    is_large: bool
    width: int = 1
    _rates: dict[int, float] = field(default_factory=dict)
    """Actions a second at each width, the last batches weighing most."""
    _content: int = 0
    _given_way: int = 0
    """How often in a row."""

    def at_once(self, *, beside_small: bool) -> int:
        """How many to try now: fewer, where a small plan is or was just carried out."""
        if not (self.is_large and beside_small) or self._given_way >= MOST_TIMES_GIVEN_WAY:
            self._given_way = 0
            return self.width
        self._given_way += 1
        return min(self.width, MOST_BESIDE_SMALL)

    def went_well(self, count: int, seconds: float) -> None:
        if not self.is_large:
            self._widen()
        elif count == self.width:  # fewer, when it gave way, tell nothing of the width
            self._learn(count / seconds if seconds > 0 else math.inf)

    def failed(self) -> None:
        """The next stage begins slowly again."""
        self.width = 1
        self._rates.clear()
        self._content = 0

    def _learn(self, rate: float) -> None:
        narrower = self._rates.get(self.width // 2, 0.0)
        rate = self._rates[self.width] = (rate + self._rates.get(self.width, rate)) / 2
        if rate < FASTER * narrower and math.isfinite(narrower):
            self.width //= 2
            self._content = CONTENT
        elif self._content:
            self._content -= 1
        else:
            self._widen()

    def _widen(self) -> None:
        self.width = min(self.width * 2, MOST_AT_ONCE)
