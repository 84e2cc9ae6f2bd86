"""The background tasks of one Pod."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from manta.api.meta import Key

log = logging.getLogger(__name__)


class PodTasks:
    """Runs coroutines in the background and calls `on_end` after each. Unexpected errors are logged."""

    def __init__(self, pod: Key, on_end: Callable[[], None]) -> None:
        self._pod = pod
        self._on_end = on_end
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._run(coroutine))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await coroutine
        except Exception:
            log.exception("Pod %s: a background task failed", self._pod)
        finally:
            self._on_end()

    def cancel(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
