"""All that is known of one Pod on this node, and the deeds that are under way for it.

Facts are changed here and nowhere else; every change wakes the Pod's worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from manta.localplane.node.podspec import Container, NodePod
from manta.localplane.node.snapshot import ContainerFacts, PodFacts, Step, Task, Trouble

log = logging.getLogger(__name__)

DEED_DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds before a deed that failed is tried again."""


class PodBook:
    def __init__(self, pod: NodePod, now: Callable[[], float]) -> None:
        self.pod = pod
        self.facts = PodFacts()
        self.now = now
        self.wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._tries: dict[str, int] = {}

    def of(self, container: str) -> ContainerFacts:
        return self.facts.containers.get(container, ContainerFacts())

    def spec(self, container: str) -> Container:
        return next(one for one in self.pod.containers() if one.name == container)

    def change(self, container: str, **changes: Any) -> None:
        facts = replace(self.of(container), **changes)
        self.change_pod(containers={**self.facts.containers, container: facts})

    def change_pod(self, **changes: Any) -> None:
        self.facts = replace(self.facts, **changes)
        self.wake.set()

    def trouble(
        self, what: str, reason: str, message: str, delays: tuple[float, ...] = DEED_DELAYS
    ) -> Task:
        """A deed failed: when to try it again, later each time."""
        tries = self._tries.get(what, 0)
        self._tries[what] = tries + 1
        retry_at = self.now() + delays[min(tries, len(delays) - 1)]
        return Task(Step.FAILED, Trouble(reason, message, retry_at))

    def forget_trouble(self, what: str) -> None:
        self._tries.pop(what, None)

    # ── deeds ──────────────────────────────────────────────────────────────────────────
    def spawn(self, deed: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guarded(deed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, deed: Coroutine[Any, Any, None]) -> None:
        try:
            await deed
        except Exception:
            log.exception("Pod %s: a deed failed", self.pod.metadata.key)
        finally:
            self.wake.set()

    def drop_deeds(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
