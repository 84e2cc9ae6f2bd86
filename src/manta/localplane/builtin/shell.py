"""The async half that all built-in controllers share: observe, apply, report, and their wiring.

A controller gives its name, its watches, its pure rooms and its table of events; this file gives
it the loop. The only other async code of a controller is how it reads its snapshot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar

from manta.api.meta import Key, ObjectMeta, View
from manta.api.resources import Resource
from manta.reconcile.actions import Call
from manta.reconcile.events import EventTable, emit
from manta.reconcile.loop import reconcile
from manta.reconcile.outcome import Outcome
from manta.reconcile.perform import KubePerformer
from manta.reconcile.plan import Plan
from manta.reconcile.report import StatusWriter
from manta.runtime.controller import Controller, Watch
from manta.runtime.freshness import Owner
from manta.runtime.manager import Manager
from manta.runtime.phases import Phase, phase
from manta.runtime.queue import Done, Retry
from manta.runtime.recorder import ObjectReference

S = TypeVar("S")


class Builtin(ABC, Generic[S]):
    """One built-in controller. `name` is what Events and logs call it."""

    name: ClassVar[str]
    workers: ClassVar[int] = 4
    events: ClassVar[EventTable] = {}

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.client = manager.client
        self._performer = KubePerformer(manager.client, manager.freshness)
        self._statuses = StatusWriter(manager.client, manager.freshness)
        self.controller = Controller(self.name, self._round, self.watches(), self.workers)
        manager.add(self.controller)

    # ── what a controller supplies ───────────────────────────────────────────────────────
    @abstractmethod
    def watches(self) -> Sequence[Watch[Any]]:
        """Which changes concern which keys. Called once, before anything else."""

    @abstractmethod
    async def observe(self, key: Key) -> S | None: ...

    @abstractmethod
    def plan(self, seen: S) -> Plan: ...

    def key_of(self, seen: S) -> Key:
        """On whose behalf this round writes."""
        return self.subject(seen)[1].key

    @abstractmethod
    def subject(self, seen: S) -> tuple[Resource, ObjectMeta]:
        """Whom the round is about: for Events, and as the owner of writes."""

    def statuses(self, seen: S, outcome: Outcome) -> tuple[View, View] | None:
        """The status as it was and as it should be; None when there is none to write."""
        del seen, outcome
        return None

    async def call(self, action: Call) -> Mapping[str, Any]:
        """Carry out what is no plain write."""
        raise NotImplementedError(f"{self.name} does not know how to {action.verb}")

    # ── the loop ─────────────────────────────────────────────────────────────────────────
    async def _round(self, key: Key) -> Done | Retry:
        return await reconcile(self, key)

    async def apply(self, seen: S, plan: Plan) -> Outcome:
        owner = Owner(self.name, self.key_of(seen))
        return await self._performer.apply(owner, plan, self.call)

    async def report(self, seen: S, plan: Plan, outcome: Outcome) -> bool:
        del plan
        resource, meta = self.subject(seen)
        if self.events:
            regarding = ObjectReference.to(resource, meta)
            with phase(Phase.EVENTS):
                emit(self.manager.recorder, self.name, regarding, self.events, outcome)
        both = self.statuses(seen, outcome)
        if both is None or both[0] == both[1]:
            return False
        owner = Owner(self.name, self.key_of(seen))
        return await self._statuses.write(owner, resource, meta, *both)

    def idle_delay(self, seen: S) -> timedelta | None:
        """The watches tell of everything: nothing is looked at without a reason."""
        del seen
        return None

    def tell(
        self, subject: tuple[Resource, ObjectMeta], type_: Any, reason: str, note: str
    ) -> None:
        """An Event that is not about an action."""
        regarding = ObjectReference.to(*subject)
        self.manager.recorder.event(regarding, type_, reason, reason, note, controller=self.name)
