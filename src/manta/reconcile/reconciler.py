"""One reconciler for all controllers: observe, plan, execute, write Events and status, wake up again.

A controller supplies the phases. Only `observe` and `call` do I/O; the other phases are pure.
Whatever a phase raises ends the reconcile: `runtime/controller.py` counts it by its phase, shows it
on the object and retries with backoff.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from manta.api.meta import Key, ObjectMeta
from manta.api.resources import Resource
from manta.kube.errors import Conflict, MantaError
from manta.reconcile.actions import Call
from manta.reconcile.events import Event, action_events
from manta.reconcile.executor import PlanExecutor
from manta.reconcile.failures import shown_error
from manta.reconcile.observer import Reconciled
from manta.reconcile.outcome import Outcome
from manta.reconcile.status_writer import Status, StatusWriter
from manta.reconcile.step import Step, earliest
from manta.reconcile.text_throttle import TextThrottle
from manta.runtime.controller import Controller, Watch
from manta.runtime.failures import RECONCILE_ERROR, FailureCondition
from manta.runtime.freshness import Owner
from manta.runtime.informer import Informer
from manta.runtime.manager import Manager
from manta.runtime.phases import Phase, phase
from manta.runtime.queue import Done, Retry
from manta.runtime.recorder import ObjectReference

S = TypeVar("S")
T = TypeVar("T", bound=Status)

NOW = timedelta(0)

log = logging.getLogger(__name__)


class Subject(NamedTuple):
    """The object that is reconciled: Events are about it, and the status is written to it."""

    resource: Resource
    metadata: ObjectMeta
    status: Status | None = None
    """The status as it is. None: this controller writes none."""


class Reconciler(ABC, Generic[S, T]):
    """Registers its controller with the manager when it is constructed.

    `S` is the type of the snapshot, `T` the type of the status.
    """

    name: ClassVar[str]
    """For logs, metrics and the owner of writes."""
    event_source: ClassVar[str] = ""
    """The reporting controller of Events; by default `name`."""
    workers: ClassVar[int] = 4
    subjects: Informer[Any] | None = None
    """The objects whose conditions show a reconcile that failed, if they have any."""
    failure_condition: ClassVar[FailureCondition] = RECONCILE_ERROR

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.client = manager.client
        self._executor = PlanExecutor(manager.client, manager.freshness)
        self._writer = StatusWriter(manager.client, manager.freshness)
        self._text_throttle = TextThrottle(manager.clock)
        watches = self.watches()
        self.controller = Controller(
            self.name,
            self.reconcile,
            watches,
            self.workers,
            subject=self.subjects,
            failure_condition=self.failure_condition,
        )
        manager.add(self.controller)

    # ── the phases ───────────────────────────────────────────────────────────────────────
    @abstractmethod
    def watches(self) -> Sequence[Watch[Any]]:
        """Which changes concern which keys. Called once, by the constructor."""

    @abstractmethod
    async def observe(self, key: Key) -> S | None:
        """Everything that the other phases may know; None when there is nothing to reconcile."""

    @abstractmethod
    def subject(self, snapshot: S) -> Subject: ...

    @abstractmethod
    def plan(self, snapshot: S) -> Step[T]: ...

    async def call(self, snapshot: S, action: Call) -> Mapping[str, Any]:
        """Execute an action that is not a plain write, and return its answer."""
        del snapshot
        raise NotImplementedError(f"{self.name} cannot execute {action.verb}")

    def next_status(self, snapshot: S, step: Step[T], outcome: Outcome) -> T | None:
        """The status as it should be; None: leave it alone."""
        del snapshot, step, outcome
        return None

    def status_delay(self, snapshot: S, new: T) -> timedelta | None:
        """How long to hold back a status. Zero: write it now. None: do not write it."""
        return NOW if new != self.subject(snapshot).status else None

    def action_events(self, outcome: Outcome) -> Iterable[Event]:
        """The Events of the causes of what was done, and of what failed."""
        return action_events(outcome)

    def status_events(self, snapshot: S, status: T | None, outcome: Outcome) -> Iterable[Event]:
        """Events that no action leaves behind. `status` is the result of `next_status`."""
        del snapshot, status, outcome
        return ()

    def remember(self, snapshot: S, outcome: Outcome, written: T | None) -> None:
        """Keep in memory what was done. `written`: the status that was written, if it was."""

    def next_wakeup(self, snapshot: S, step: Step[T]) -> timedelta | None:
        """When to reconcile again although nothing changed, even after a failure."""
        del snapshot, step
        return None

    def resync_in(self, snapshot: S) -> timedelta | None:
        """The safety resync. After a failure its backoff takes the place of a resync."""
        del snapshot
        return None

    # ── the loop ─────────────────────────────────────────────────────────────────────────
    async def reconcile(self, key: Key) -> Done | Retry:
        with phase(Phase.OBSERVE):
            snapshot = await self.observe(key)
        if snapshot is None:
            return Done()
        if self.manager.observer is None:
            return await self._act(key, snapshot, None)
        record = Reconciled(self.name, key, snapshot)
        try:
            return await self._act(key, snapshot, record)
        except BaseException as error:
            record.error = error
            raise
        finally:
            self.manager.observer(record)

    async def _act(self, key: Key, snapshot: S, record: Reconciled | None) -> Done | Retry:
        """Plan, execute and report. `record` gets what each phase returns; None: nothing observes."""
        owner = Owner(self.name, key)
        with phase(Phase.PLAN):
            step = self.plan(snapshot)
        if record is not None:
            record.step = step
        with phase(Phase.APPLY):
            outcome = await self._execute(owner, snapshot, step)
        if record is not None:
            record.outcome = outcome
        with phase(Phase.EVENTS):
            self._record(snapshot, self.action_events(outcome))
        held, error = await self._report(owner, snapshot, step, outcome, record)
        # A failure is retried with growing backoff, but never later than a timer.
        due = earliest(step.wakeup, self.next_wakeup(snapshot, step), held)
        if outcome.failure:  # it came first, and is often the reason of the second
            return Retry(shown_error(outcome.failure), due, error)
        if error:
            is_conflict = isinstance(error, Conflict)
            why = "status was changed by someone else" if is_conflict else "cannot write the status"
            return Retry(f"{why}: {error}", due, error)
        if step.plan.unfinished:
            return Done(NOW)
        if step.plan.wait and step.plan.wait.backoff:
            return Retry(step.plan.wait.why, due)
        return Done(earliest(due, self.resync_in(snapshot)))

    async def _execute(self, owner: Owner, snapshot: S, step: Step[T]) -> Outcome:
        async def call(action: Call) -> Mapping[str, Any]:
            return await self.call(snapshot, action)

        return await self._executor.execute(owner, step.plan, call)

    async def _report(
        self,
        owner: Owner,
        snapshot: S,
        step: Step[T],
        outcome: Outcome,
        record: Reconciled | None = None,
    ) -> tuple[timedelta | None, MantaError | None]:
        """How long the status is held back, and why it could not be written."""
        try:
            with phase(Phase.STATUS):
                return await self._write_status(owner, snapshot, step, outcome, record), None
        except MantaError as error:
            if not isinstance(error, Conflict):
                log.warning("cannot write the status: %s", error)
            return None, error

    async def _write_status(
        self, owner: Owner, snapshot: S, step: Step[T], outcome: Outcome, record: Reconciled | None
    ) -> timedelta | None:
        resource, metadata, old = self.subject(snapshot)
        new = self.next_status(snapshot, step, outcome)
        if record is not None and new != old:
            record.status = new
        delay = self.status_delay(snapshot, new) if new is not None else None
        if outcome.failure is None:
            self._text_throttle.forget(owner)
        elif delay is not None and new is not None and old is not None:
            delay = max(delay, self._text_throttle.delay(owner, old, new))
        written = None
        # A status that stays as it is may still have Events, such as an invalid spec without conditions.
        if new is not None and old is not None and new != old and delay == NOW:
            if not await self._writer.write(owner, resource, metadata, old, new):
                return None  # the object is gone
            written = new
            if outcome.failure is not None:
                self._text_throttle.wrote(owner, new)
            if record is not None:
                record.written = True
        with phase(Phase.EVENTS):
            self._record(snapshot, self.status_events(snapshot, new, outcome))
        self.remember(snapshot, outcome, written)
        return delay or None

    def _record(self, snapshot: S, events: Iterable[Event]) -> None:
        resource, metadata, _ = self.subject(snapshot)
        for event in events:
            self.manager.recorder.event(
                event.regarding or ObjectReference.to(resource, metadata),
                event.type,
                event.reason,
                event.action,
                event.note,
                controller=self.event_source or self.name,
            )
