"""Ask dashboards again and again, and tell when an answer changes.

Ray offers no watch, so somebody must poll. It is done here and not in a reconcile round, so that
a dashboard which hangs costs nobody's turn: a round reads the latest answer, and a changed answer
enqueues the object. Questions are asked often while answers change and seldom once they rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """How often to ask, in seconds."""

    busy: float = 1.0
    """While the answer changes, or the asker says that it expects a change."""
    calm: float = 30.0
    """Once the answer has rested. The way from busy to calm doubles."""
    most_per_second: float = 100.0
    """All that expect a change share this: a fleet that starts at once must not drown its asker."""


@dataclass(slots=True)
class _Question(Generic[A]):
    identity: Hashable
    ask: Callable[[], Awaitable[A]]
    expecting: bool
    answer: A | None = None
    delay: float = 0.0
    stumbled: bool = False
    """The last try to ask ended in an error that nobody foresaw."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class DashboardWatch(Generic[K, A]):
    """One question per key, each in its own small task; `changed(key)` on every new answer."""

    def __init__(self, changed: Callable[[K], None], pace: Pace | None = None) -> None:
        self._changed = changed
        self._pace = pace or Pace()
        self._questions: dict[K, _Question[A]] = {}
        self._expecting: set[K] = set()

    def answer(
        self, key: K, identity: Hashable, ask: Callable[[], Awaitable[A]], *, expecting: bool
    ) -> A | None:
        """The latest answer, or None while there is none yet; and keep asking.

        `identity` says what is being asked (which dashboard, which job): a question about
        something else starts anew. `expecting`: a change is due, so ask at the busy pace.
        """
        question = self._questions.get(key)
        if question is None or question.identity != identity:
            self.forget(key)
            question = _Question(identity, ask, expecting, delay=self._pace.busy)
            self._questions[key] = question
            self._expect(key, question, expecting=expecting)
            question.task = asyncio.create_task(self._keep_asking(key, question))
            return None
        question.ask = ask
        if expecting and not question.expecting:
            question.delay = self._pace.busy
            question.wake.set()
        self._expect(key, question, expecting=expecting)
        return question.answer

    def _expect(self, key: K, question: _Question[A], *, expecting: bool) -> None:
        question.expecting = expecting
        (self._expecting.add if expecting else self._expecting.discard)(key)

    def _until_next(self, question: _Question[A]) -> float:
        fair = len(self._expecting) / self._pace.most_per_second if question.expecting else 0.0
        return max(question.delay, fair)

    def ask_now(self, key: K) -> None:
        """Something was just changed on the far side: do not wait for the next turn."""
        if question := self._questions.get(key):
            question.delay = self._pace.busy
            question.wake.set()

    def forget(self, key: K) -> None:
        question = self._questions.pop(key, None)
        self._expecting.discard(key)
        if question is not None and question.task is not None:
            question.task.cancel()

    async def run(self) -> None:
        """For a manager's services: nobody is asked any more when the manager has ended."""
        try:
            await asyncio.Event().wait()
        finally:
            self.close()

    def close(self) -> None:
        for key in list(self._questions):
            self.forget(key)

    def __len__(self) -> int:
        return len(self._questions)

    async def _keep_asking(self, key: K, question: _Question[A]) -> None:
        while True:
            question.wake.clear()
            try:
                self._hear(key, question, await question.ask())
            except Exception as error:  # noqa: BLE001  else the watch would end in silence
                self._stumble(key, question, error)
            try:
                async with asyncio.timeout(self._until_next(question)):
                    await question.wake.wait()
            except TimeoutError:
                continue

    def _hear(self, key: K, question: _Question[A], answer: A) -> None:
        recovered, question.stumbled = question.stumbled, False
        if answer != question.answer:
            question.answer = answer
            question.delay = self._pace.busy
            self._changed(key)
        elif recovered:
            question.delay = self._pace.busy
        elif not question.expecting:
            question.delay = min(question.delay * 2, self._pace.calm)

    def _stumble(self, key: K, question: _Question[A], error: Exception) -> None:
        """Told once, not at every turn; the next try may go better, so there is one."""
        if not question.stumbled:
            log.error("asking about %s failed, and goes on: %s", key, error, exc_info=error)
        question.stumbled = True
        question.delay = self._pace.calm
