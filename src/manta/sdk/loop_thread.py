"""An event loop in a thread of its own, for the synchronous client.

It also works where the caller's thread has a running loop, as in Jupyter.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from typing import Any, Final, TypeVar

T = TypeVar("T")
AHEAD: Final = 64
"""Items that an iteration may be ahead of its reader: a slow reader slows the sender down."""


class LoopThread:
    """Runs coroutines of the asynchronous client for synchronous callers. Starts when first used."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result. Ctrl-C cancels the work."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start it without waiting."""
        try:
            loop = self._running_loop()
        except RuntimeError:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, loop)

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """The items. When the caller stops early, the generator is closed."""
        queue: asyncio.Queue[tuple[T] | None] = asyncio.Queue(AHEAD)
        pump = self.start(_pump(items, queue))
        try:
            while (item := self.run(queue.get())) is not None:
                yield item[0]
            pump.result()  # raises what the generator raised
        finally:
            pump.cancel()

    def is_current(self) -> bool:
        """Whether the caller runs in this thread, where `run` would wait for itself."""
        return self._thread is threading.current_thread()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """End the thread. Work that still runs is cancelled."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise RuntimeError("this client is closed: make a new manta.Client()")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="manta", daemon=True
                )
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        asyncio.set_event_loop(None)
        loop.close()


async def _pump(items: AsyncGenerator[T, None], queue: asyncio.Queue[tuple[T] | None]) -> None:
    try:
        async with aclosing(items) as opened:
            async for item in opened:
                await queue.put((item,))
    finally:
        # A full queue: the reader takes an item first. Cancelled: nobody reads any more.
        if not asyncio.current_task().cancelling():  # type: ignore[union-attr]
            await queue.put(None)
