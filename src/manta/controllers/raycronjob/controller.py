"""The RayCronJob controller: what it watches, and its five rooms tied together."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from manta.api.meta import Key
from manta.api.ray.names import LABEL_CRON_JOB_NAME
from manta.api.ray.resources import RAY_CRON_JOBS, RAY_JOBS
from manta.controllers.raycronjob import ticks
from manta.controllers.raycronjob.events import CONTROLLER, REASONS, notices
from manta.controllers.raycronjob.observe import BY_CONTROLLER, Observer, controller_uid
from manta.controllers.raycronjob.plan import plan
from manta.controllers.raycronjob.snapshot import ChildJob, CronJob, CronSnapshot
from manta.controllers.raycronjob.status import next_status
from manta.reconcile import events
from manta.reconcile.loop import reconcile
from manta.reconcile.outcome import Outcome
from manta.reconcile.perform import KubePerformer
from manta.reconcile.plan import Plan
from manta.reconcile.report import StatusWriter
from manta.rules.settings import Settings
from manta.runtime.controller import Controller, Watch, own_key, owner_keys
from manta.runtime.freshness import Owner
from manta.runtime.manager import Manager
from manta.runtime.phases import Phase, phase
from manta.runtime.queue import Done, Retry
from manta.runtime.recorder import ObjectReference, Recorder


class RayCronJobRooms:
    def __init__(
        self,
        observer: Observer,
        performer: KubePerformer,
        status: StatusWriter,
        recorder: Recorder,
    ) -> None:
        self.look = observer.look
        self._performer = performer
        self._status = status
        self._recorder = recorder

    async def observe(self, key: Key) -> CronSnapshot | None:
        return self.look(key)

    def plan(self, seen: CronSnapshot) -> Plan:
        return plan(seen)

    async def apply(self, seen: CronSnapshot, plan: Plan) -> Outcome:
        return await self._performer.apply(_owner(seen), plan)

    async def report(self, seen: CronSnapshot, plan: Plan, outcome: Outcome) -> bool:
        meta = seen.cron.metadata
        regarding = ObjectReference.to(RAY_CRON_JOBS, meta)
        with phase(Phase.EVENTS):
            events.tell(self._recorder, CONTROLLER, regarding, notices(seen))
            events.emit(self._recorder, CONTROLLER, regarding, REASONS, outcome)
        old, new = seen.cron.status, next_status(seen, outcome)
        return await self._status.write(_owner(seen), RAY_CRON_JOBS, meta, old, new)

    def until_next(self, key: Key) -> timedelta | None:
        """How long until the next tick, whatever became of this round."""
        seen = self.look(key)
        return self.idle_delay(seen) if seen and not seen.violations else None

    def idle_delay(self, seen: CronSnapshot) -> timedelta | None:
        """Sleep until the next tick, or less: the wall clock may be set meanwhile."""
        upcoming = ticks.next_tick(seen)
        if upcoming is None:
            return None
        return min(upcoming - seen.now, ticks.LONGEST_SLEEP)


def _owner(seen: CronSnapshot) -> Owner:
    return Owner(CONTROLLER, seen.cron.metadata.key)


def build(manager: Manager, settings: Settings) -> Controller:
    """Wire the controller into a manager, which then runs it."""
    crons = manager.informer(RAY_CRON_JOBS, CronJob)
    jobs = manager.informer(
        RAY_JOBS,
        ChildJob,
        labels=LABEL_CRON_JOB_NAME,
        indexes={BY_CONTROLLER: controller_uid},
    )
    rooms = RayCronJobRooms(
        Observer(crons, jobs, manager.clock, settings),
        KubePerformer(manager.client, manager.freshness),
        StatusWriter(manager.client, manager.freshness),
        manager.recorder,
    )

    async def run_round(key: Key) -> Done | Retry:
        result = await reconcile(rooms, key)
        # A tick that cannot be served (its name is taken, say) must not hold up the next one.
        return (
            replace(result, within=rooms.until_next(key)) if isinstance(result, Retry) else result
        )

    watches = (
        Watch(crons, own_key),
        Watch(jobs, owner_keys(RAY_CRON_JOBS.kind, RAY_CRON_JOBS.group)),
    )
    return Controller(CONTROLLER, run_round, watches, subject=crons)
