"""How long to wait after the n-th failure in a row: exponential, capped, jittered."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays of `base`, twice that, four times ... up to `cap` seconds, each plus jitter."""

    base: float = 0.005
    cap: float = 300.0
    jitter: float = 0.2
    """The largest share that is added at random, so that many keys do not return at once."""

    def delay(self, failures: int, random: Random) -> float:
        """Seconds to wait after this many failures in a row (1 = the first)."""
        doublings = min(max(failures - 1, 0), 60)  # avoids an overflow
        return min(self.base * 2.0**doublings, self.cap) * (1.0 + self.jitter * random.random())


KEY_BACKOFF = Backoff()
"""For a key whose reconciles fail: 5 ms at first, at most five minutes."""

WATCH_BACKOFF = Backoff(base=0.5, cap=30.0, jitter=0.5)
"""For a list or watch that fails."""


class Failures(Generic[K]):
    """Counts consecutive failures per key."""

    def __init__(self, backoff: Backoff, random: Random) -> None:
        self._backoff = backoff
        self._random = random
        self._counts: dict[K, int] = {}

    def next_delay(self, key: K) -> float:
        count = self._counts.get(key, 0) + 1
        self._counts[key] = count
        return self._backoff.delay(count, self._random)

    def of(self, key: K) -> int:
        return self._counts.get(key, 0)

    def forget(self, key: K) -> None:
        self._counts.pop(key, None)

    def __len__(self) -> int:
        return len(self._counts)
