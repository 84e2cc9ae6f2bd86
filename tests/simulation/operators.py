"""One replica of the operator, as the process builds it, on virtual time. It can be killed, paused and stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from manta.api.meta import Key
from manta.api.ray.names import LEADER_LEASE_NAME
from manta.controllers.raycluster import controller as raycluster
from manta.controllers.raycronjob import controller as raycronjob
from manta.controllers.rayjob import controller as rayjob
from manta.controllers.rayservice import controller as rayservice
from manta.kube.client import Client
from manta.kube.rate_limiter import AdaptiveRateLimiter
from manta.localplane.apiserver.app import App
from manta.ray.dashboard import Dashboard
from manta.reconcile.observer import Reconciled
from manta.rules.settings import Settings
from manta.runtime.election import Election, Leadership
from manta.runtime.gate import GatedTransport, WriteGate
from manta.runtime.manager import Manager
from manta.runtime.recorder import Recorder
from simulation.clock import ReplicaClock
from simulation.ray import SimulatedRay
from simulation.transport import RequestFault, SimulatedTransport

LEASE = Key("default", LEADER_LEASE_NAME)


class PausableElection(Election):
    """An election whose timers do not fire while the process is paused."""

    def _stop_leading(self, why: str, level: int = logging.WARNING) -> None:
        clock = self._clock
        if isinstance(clock, ReplicaClock) and clock.frozen:
            asyncio.get_running_loop().call_later(1.0, self._stop_if_late)
            return
        super()._stop_leading(why, level)

    def _stop_if_late(self) -> None:
        if self._gate.remaining <= 0:
            self._stop_leading("it could not be renewed in time")
        elif isinstance(self._clock, ReplicaClock) and not self._clock.frozen:
            self._lead_until(self._clock.monotonic() + self._gate.remaining)
        else:
            asyncio.get_running_loop().call_later(1.0, self._stop_if_late)


@dataclass
class Life:
    """One process: from its start to its end."""

    transport: SimulatedTransport
    manager: Manager
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@dataclass
class Replica:
    name: str
    app: App
    ray: SimulatedRay
    settings: Settings
    seed: str
    elects: bool
    latency: float = 0.0
    clock: ReplicaClock = field(default_factory=ReplicaClock)
    life: Life | None = None
    lives: int = 0
    ended: list[Life] = field(default_factory=list)
    on_start: list[object] = field(default_factory=list)
    request_faults: list[RequestFault] = field(default_factory=list)
    """Of the API server: they meet whatever process of this replica comes next."""
    reconciled: Callable[[str, Reconciled], None] = lambda _name, _reconciled: None

    @property
    def transport(self) -> SimulatedTransport | None:
        return self.life.transport if self.life else None

    @property
    def is_stopping(self) -> bool:
        """Whether a process that was stopped politely still finishes what it does."""
        return any(
            not life.transport.dead and not all(task.done() for task in life.tasks)
            for life in self.ended
        )

    def start(self) -> Life:
        """A new process. Its random source depends on the seed and on how often it was started."""
        self.lives += 1
        random = Random(f"{self.seed}/{self.name}/{self.lives}")
        transport = SimulatedTransport(self.app, self.name, self._latency_of(random))
        transport.requests = self.request_faults
        gate = WriteGate(self.clock)
        client = Client(
            GatedTransport(transport, gate), limiter=AdaptiveRateLimiter(), rng=random, timeout=30
        )
        recorder = Recorder(client, self.clock, random, instance=self.name)
        manager = Manager(
            client,
            self.clock,
            random,
            recorder=recorder,
            gate=gate,
            observer=lambda reconciled: self.reconciled(self.name, reconciled),
        )
        self._build(manager)
        leadership = self._elect(transport, gate, random, manager)
        life = Life(transport, manager)
        life.tasks.append(asyncio.create_task(manager.run(leadership), name=self.name))
        self.life = life
        return life

    def _latency_of(self, random: Random):  # type: ignore[no-untyped-def]
        return lambda: random.random() * self.latency if self.latency else 0.0

    def _build(self, manager: Manager) -> None:
        dashboard = Dashboard(self.ray)
        raycluster.build(manager, self.settings)
        rayjob.build(manager, self.settings, dashboard)
        rayservice.build(manager, self.settings, dashboard)
        raycronjob.build(manager, self.settings)

    def _elect(
        self, transport: SimulatedTransport, gate: WriteGate, random: Random, manager: Manager
    ) -> Leadership | None:
        if not self.elects:
            gate.open()
            return None
        leadership = Leadership()
        election = PausableElection(
            self.clock,
            Random(random.random()),
            gate,
            lease=LEASE,
            identity=f"{self.name}-{self.lives}",
            on_change=leadership.change,
        )
        client = Client(transport, timeout=5, rng=Random(random.random()))
        manager.add_service("election", lambda: election.run(client))
        return leadership

    def kill(self) -> None:
        """As SIGKILL: nothing is written any more, and nobody is told."""
        if self.life is not None:
            self.life.transport.dead = True
            for task in self.life.tasks:
                task.cancel()
            self.ended.append(self.life)
            self.life = None
            self.clock.thaw()

    def stop(self) -> None:
        """As SIGTERM: running reconciles finish, the lease is released."""
        if self.life is not None:
            self.life.manager.stop()
            self.ended.append(self.life)
            self.life = None

    async def close(self) -> None:
        self.kill()
        for life in self.ended:
            life.transport.dead = True
            await life.end()
