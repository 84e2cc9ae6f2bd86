"""Asyncio helpers of a process: its event loop, its signals and its tasks."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
from collections.abc import Callable, Sequence
from typing import Any


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The factory of uvloop where it is installed; None: the default loop."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def until_first_ends(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Wait until one of the tasks ends, then cancel the others. Raises the error that ended it."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
