"""An event loop on virtual time: when nothing is ready, its clock jumps to the next timer.

A day of timers takes only as long as its callbacks, and the same program with the same seed takes the same
steps. Code that runs on it must use no sockets and no threads. A program that waits for something that can
never happen raises `Stuck` instead of hanging.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context
from datetime import UTC, datetime, timedelta
from math import ceil
from random import Random
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of day at which a simulation starts, by default."""


class Stuck(RuntimeError):  # noqa: N818  named by what is so
    """Every task waits and no timer is set, so nothing can ever happen."""


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: calls `jump` with the timeout instead."""

    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise Stuck("all tasks wait, and no timer is set")
        self._jump(timeout)
        return []


_TICKS = 1_000_000
"""Virtual time is counted in whole microseconds."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time starts at 0 and moves only when every task waits for a timer.

    No timer fires early, not even by a rounding error: code that checks the time and sleeps for the rest
    would otherwise loop for ever, because only timers move this clock.
    """

    def __init__(self) -> None:
        self._ticks = 0
        super().__init__(_JumpingSelector(self._advance))
        self._clock_resolution = 0.5 / _TICKS

    def time(self) -> float:
        return self._ticks / _TICKS

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return super().call_at(ceil(when * _TICKS) / _TICKS, callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """A delay below one tick still moves the clock by one tick."""
        least = (self._ticks + 1) / _TICKS if delay > 0 else self.time()
        return self.call_at(max(self.time() + delay, least), callback, *args, context=context)

    def run_in_executor(
        self, executor: Any, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run it now, in this thread: this clock would run on while a thread takes real time."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  the awaiting task gets it
            done.set_exception(error)
        return done

    def _advance(self, seconds: float) -> None:
        self._ticks += round(max(seconds, 0.0) * _TICKS)


class LoopClock:
    """A clock that follows the running loop. `epoch` is the time of day when the loop's time is zero."""

    def __init__(self, epoch: datetime) -> None:
        self._epoch = epoch

    def now(self) -> datetime:
        return self._epoch + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def virtual_clock(epoch: datetime = EPOCH) -> LoopClock:
    """The clock for code that runs under `run_virtual`."""
    return LoopClock(epoch)


def run_virtual(
    main: Coroutine[Any, Any, T] | Callable[[Random], Coroutine[Any, Any, T]], seed: int = 0
) -> T:
    """Run `main` to its end under virtual time.

    A function is called with a random source made from the seed, the only one that a simulated program may
    use.
    """
    coroutine = main if isinstance(main, Coroutine) else main(Random(seed))
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)
