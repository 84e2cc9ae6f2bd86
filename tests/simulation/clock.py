"""The clock of one operator replica: it can jump, and it can stand still while the process is paused."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from support.virtual_time import EPOCH


class ReplicaClock:
    """Virtual time. `jump` moves the wall clock only, as an administrator or NTP does; `freeze` stops the
    monotonic clock, as the suspension of a virtual machine does."""

    def __init__(self) -> None:
        self._jumped = 0.0
        self._lag = 0.0
        self._frozen_at: float | None = None

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self._loop_time() + self._jumped)

    def monotonic(self) -> float:
        time = self._loop_time() if self._frozen_at is None else self._frozen_at
        return time - self._lag

    @property
    def frozen(self) -> bool:
        return self._frozen_at is not None

    def jump(self, seconds: float) -> None:
        self._jumped += seconds

    def reset(self) -> None:
        """Undo all jumps."""
        self._jumped = 0.0

    def freeze(self) -> None:
        if self._frozen_at is None:
            self._frozen_at = self._loop_time()

    def thaw(self) -> None:
        if self._frozen_at is not None:
            self._lag += self._loop_time() - self._frozen_at
            self._frozen_at = None

    @staticmethod
    def _loop_time() -> float:
        return asyncio.get_running_loop().time()
