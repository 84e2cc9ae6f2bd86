"""Reads the snapshot of a RayCronJob, all of it from the caches."""

from __future__ import annotations

from manta.api.meta import Key
from manta.api.ray.cronjob import RayCronJob
from manta.controllers.raycronjob.snapshot import ChildJob, CronSnapshot
from manta.rules.settings import Settings
from manta.rules.validation.cronjob import cronjob_violations
from manta.runtime.clock import Clock
from manta.runtime.informer import Informer

BY_CONTROLLER = "by-controller"


class Observer:
    def __init__(
        self,
        crons: Informer[RayCronJob],
        jobs: Informer[ChildJob],
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._crons = crons
        self._jobs = jobs
        self._clock = clock
        self._settings = settings

    def observe(self, key: Key) -> CronSnapshot | None:
        cron = self._crons.get(key)
        if cron is None:
            return None
        children = self._jobs.by(BY_CONTROLLER, cron.metadata.uid)
        wrong = cronjob_violations(cron, self._settings)
        return CronSnapshot(cron, children, self._clock.now(), self._settings, wrong)
