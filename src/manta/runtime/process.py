"""Asyncio helpers of a process: its event loop, its signals and its tasks."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import signal
import threading
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


def in_daemon_thread(work: Callable[[], None], name: str) -> asyncio.Future[None]:
    """Run blocking work that may hang. Unlike that of `asyncio.to_thread`, it never holds up the exit.

    The future gets what `work` raises.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end(error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result(None) if error is None else ended.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as caught:  # noqa: BLE001 - raised where it is awaited
            error = caught
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(end, error)

    threading.Thread(target=run, daemon=True, name=name).start()
    return ended
