"""A controller: its watches, the keys that a change concerns, and its workers.

One reconcile per key at a time, never on a cache older than our own writes. A reconcile that raises
is counted by phase, logged with its key, shown on its object (`runtime/failures.py`) and tried again
with backoff; other keys go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Generic, TypeVar

from manta.api.meta import Key
from manta.kube.errors import Conflict, MantaError
from manta.runtime import tracing
from manta.runtime.cache import Named
from manta.runtime.controller_metrics import ControllerMetrics
from manta.runtime.failures import RECONCILE_ERROR, FailureCondition, FailureReporter, describe
from manta.runtime.freshness import Freshness, Owner
from manta.runtime.informer import Informer
from manta.runtime.logging import begin_reconcile, end_reconcile
from manta.runtime.phases import Phase, current_phase, reset_phase
from manta.runtime.queue import Closed, Done, Retry, WorkQueue

T = TypeVar("T", bound=Named)

Reconcile = Callable[[Key], Awaitable[Done | Retry]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Watch(Generic[T]):
    """An informer, and the keys that a change of one of its objects concerns."""

    informer: Informer[T]
    keys: Callable[[T | None, T | None], Iterable[Key]]
    priority: bool = False
    """Keys of these changes are reconciled before others: work in progress goes before new work."""


def own_key(old: Named | None, new: Named | None) -> tuple[Key, ...]:
    """The key of the object itself: for the kind that a controller reconciles."""
    some = new if new is not None else old
    return (some.metadata.key,) if some is not None else ()


def owner_keys(kind: str, group: str) -> Callable[[Named | None, Named | None], tuple[Key, ...]]:
    """The keys of the owners of one kind, before and after the change: for children."""

    def keys(old: Named | None, new: Named | None) -> tuple[Key, ...]:
        found: dict[Key, None] = {}
        for one in (old, new):
            owner = one.metadata.controller if one is not None else None
            if one is None or owner is None or owner.kind != kind:
                continue
            if owner.api_version.partition("/")[0] == group:
                found[Key(one.metadata.namespace, owner.name)] = None
        return tuple(found)

    return keys


def mapped_keys(
    keys_of: Callable[[Any], Iterable[Key]],
) -> Callable[[Named | None, Named | None], tuple[Key, ...]]:
    """The keys that `keys_of` finds for an object, before and after the change."""

    def keys(old: Named | None, new: Named | None) -> tuple[Key, ...]:
        some = (one for one in (old, new) if one is not None)
        return tuple(dict.fromkeys(key for one in some for key in keys_of(one)))

    return keys


class Controller:
    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        watches: Sequence[Watch[Any]],
        workers: int = 8,
        *,
        subject: Informer[Any] | None = None,
        failure_condition: FailureCondition = RECONCILE_ERROR,
    ) -> None:
        """`subject`: the informer of the objects whose status shows a reconcile that raised, by the
        condition `failure_condition`. Only the controller with ReconcileError tells of what cannot be read."""
        self.name = name
        self.subject = subject
        self.failure_condition = failure_condition
        self.workers = workers
        self._reconcile = reconcile
        self._watches = tuple(watches)
        self._queue: WorkQueue[Key] | None = None
        self._freshness: Freshness | None = None
        self._metrics: ControllerMetrics | None = None
        self._reporter: FailureReporter | None = None

    def attach(
        self,
        random: Random,
        freshness: Freshness,
        metrics: ControllerMetrics,
        reporter: FailureReporter | None = None,
    ) -> None:
        """Bind to the runtime. From now on changes put keys on the queue."""
        self._reporter = reporter
        self._queue = WorkQueue(random, observer=metrics)
        self._freshness = freshness
        self._metrics = metrics
        for watch in self._watches:
            watch.informer.add_handler(partial(self._changed, watch))
        if self.subject is not None and self._reports_unreadable:
            self.subject.add_readability_handler(self._queue.add)

    @property
    def _reports_unreadable(self) -> bool:
        return self.failure_condition == RECONCILE_ERROR

    def _unreadable(self, key: Key) -> str | None:
        if self.subject is None or not self._reports_unreadable:
            return None
        return self.subject.unreadable(key)

    def _changed(self, watch: Watch[Any], old: Any, new: Any) -> None:
        try:
            keys = tuple(watch.keys(old, new))
        except Exception:  # one malformed object must not end the watch
            some = new if new is not None else old
            log.exception(
                "cannot determine which objects a change of %s concerns", some.metadata.key
            )
            if self._metrics:
                self._metrics.failed(Phase.WATCH)
            return
        for key in keys:
            self.queue.add(key, priority=watch.priority)

    @property
    def queue(self) -> WorkQueue[Key]:
        """The queue of keys. Raises RuntimeError before the controller was added to a manager."""
        if self._queue is None:
            raise RuntimeError(f"controller {self.name} was not added to a manager")
        return self._queue

    def enqueue(self, key: Key) -> None:
        """For changes that come from no informer."""
        self.queue.add(key)

    def poll_failed(self, error: Exception) -> str:
        """Count a poll that raised, and describe it without what may be secret."""
        if self._metrics:
            self._metrics.failed(Phase.POLL)
        return describe(Phase.POLL, error)

    def enqueue_all(self) -> None:
        """Reconcile everything again, as after a start."""
        for watch in self._watches:
            for one in watch.informer.all():
                self._changed(watch, None, one)

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        return tuple(watch.informer for watch in self._watches)

    async def run(self) -> None:
        """Wait for the caches, then reconcile until the queue is closed and empty."""
        for informer in self.informers:
            if not informer.on_demand:
                await informer.synced.wait()
        async with asyncio.TaskGroup() as group:
            for number in range(self.workers):
                group.create_task(self._work(), name=f"{self.name} worker {number}")

    async def _work(self) -> None:
        queue, freshness = self.queue, self._freshness
        assert freshness is not None
        while True:
            try:
                key = await queue.get()
            except Closed:
                return
            owner = Owner(self.name, key)
            if not freshness.is_fresh(owner):
                # Not reconciled now: `when_fresh` puts the key back.
                queue.done(key)
                freshness.when_fresh(owner, _Adder(self.queue, key))
                continue
            try:
                with tracing.span("reconcile", controller=self.name, object=str(key)):
                    result = await self._reconcile_key(key)
                    tracing.remember_trace()
            except asyncio.CancelledError:
                # The lease was lost: if this process leads again, the key is reconciled again.
                queue.done(key)
                queue.add(key)
                raise
            queue.finish(key, result)
            await asyncio.sleep(0)  # let other tasks run even if the queue is full

    async def _reconcile_key(self, key: Key) -> Done | Retry:
        token = begin_reconcile(self.name, key)
        reset_phase()
        try:
            result = await self._reconcile(key)
            why = self._unreadable(key)
            if why is not None:
                result = await self._failed(key, Phase.DECODE, why)
            elif isinstance(result, Retry) and result.error is not None:
                await self._failed(key, Phase.STATUS, result.error)
            elif self._reporter and self.subject is not None:
                await self._reporter.succeeded(key, self.subject.get(key))
        except MantaError as error:
            log.warning("%s failed: %s", current_phase(), error)
            result = await self._failed(key, current_phase(), error)
        except Exception as error:
            log.exception("%s failed", current_phase())
            if self._metrics:
                self._metrics.panicked()
            result = await self._failed(key, current_phase(), error)
        finally:
            end_reconcile(token)
        if self._metrics:
            self._metrics.reconciled(result)
        return result

    async def _failed(self, key: Key, phase: Phase, error: Exception | str) -> Retry:
        """Count the failure, show it on the object, and retry."""
        if self._metrics and not isinstance(error, Conflict):  # a conflict is normal
            self._metrics.failed(phase)
        if self._reporter:
            await self._reporter.failed(key, phase, error)
        why = describe(phase, error)
        tracing.fail(why)
        return Retry(why)


@dataclass(frozen=True, slots=True)
class _Adder:
    """Equal for equal keys, so that freshness registers a key once."""

    queue: WorkQueue[Key]
    key: Key

    def __call__(self) -> None:
        self.queue.add(self.key, priority=True)
