"""Starts, watches over and stops everything in an operator process.

Promises: informers are shared; controllers start only when we lead, and on caches that are no older
than that; a supervised task that ends
when it should not ends the whole run with its error, because half an operator is worse than a
restarted one; on `stop` no new round starts, the running ones are given time to finish.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from manta.api.resources import Resource
from manta.kube.client import Client
from manta.kube.errors import MantaError, NotFound
from manta.runtime import gauges
from manta.runtime.backoff import WATCH_BACKOFF
from manta.runtime.cache import Named
from manta.runtime.clock import Clock
from manta.runtime.controller import Controller
from manta.runtime.election import Leadership
from manta.runtime.failures import FailureReporter
from manta.runtime.freshness import Freshness
from manta.runtime.gate import WriteGate
from manta.runtime.index import IndexFunction
from manta.runtime.informer import Informer
from manta.runtime.metrics import Registry, RuntimeMetrics
from manta.runtime.recorder import Recorder
from manta.runtime.reflector import Pace

T = TypeVar("T", bound=Named)

log = logging.getLogger(__name__)

DRAIN_SECONDS = 20.0
"""How long running rounds may take to finish after `stop`; below Kubernetes' 30 s of grace."""


class TaskEnded(RuntimeError):  # noqa: N818  named by what is so
    """A task that should run as long as the process came to an end."""


class Manager:
    def __init__(  # noqa: PLR0913  what is injected into the whole operator, in one place
        self,
        client: Client,
        clock: Clock,
        random: Random,
        *,
        namespaces: Sequence[str] = (),
        registry: Registry | None = None,
        recorder: Recorder | None = None,
        pace: Pace | None = None,
        gate: WriteGate | None = None,
        concurrency: int | None = None,
    ) -> None:
        """`namespaces`: the ones to watch; none means all. `concurrency`: the fewest workers of
        every controller; None leaves the number to each of them."""
        self.client = client
        self.clock = clock
        self.random = random
        self.namespaces = tuple(namespaces)
        self.registry = registry if registry is not None else Registry()
        self.metrics = RuntimeMetrics(self.registry)
        self.freshness = Freshness(random)
        self.recorder = recorder or Recorder(client, clock, random)
        self.concurrency = concurrency
        self._pace = pace
        self._gate = gate
        self._informers: dict[tuple[Resource, type[Any], str, str], Informer[Any]] = {}
        self._begun: dict[Informer[Any], asyncio.Task[None]] = {}
        self._controllers: list[Controller] = []
        self._services: list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = []
        self._term_end_handlers: list[Callable[[], None]] = []
        self._stopping = asyncio.Event()
        gauges.register_caches(self.registry, self._informers.values())
        gauges.register_controllers(self.registry, self._controllers)
        gauges.register_recorder(self.registry, self.recorder)

    def informer(
        self,
        resource: Resource,
        into: type[T],
        *,
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        on_demand: bool = False,
    ) -> Informer[T]:
        """The one informer of these objects; who asks again shares it and may add indexes."""
        address = (resource, into, labels, fields)
        informer: Informer[T] | None = self._informers.get(address)
        if informer is None:
            informer = Informer(
                self.client,
                resource,
                into,
                namespaces=self.namespaces,
                labels=labels,
                fields=fields,
                random=self.random,
                pace=self._pace,
                on_demand=on_demand,
            )
            self._informers[address] = informer
            self.freshness.track(informer)
        for name, values in (indexes or {}).items():
            informer.add_index(name, values)
        return informer

    def begin(self, informer: Informer[Any]) -> None:
        """Let an informer look at the world before `run`, while there is still work to set up."""
        if informer not in self._begun:
            name = informer.resource.plural
            self._begun[informer] = asyncio.create_task(informer.run(), name=name)

    def add(self, controller: Controller) -> None:
        if self.concurrency is not None:
            controller.workers = max(controller.workers, self.concurrency)
        metrics = self.metrics.of(controller.name)
        controller.attach(self.random, self.freshness, metrics, self._reporter(controller))
        self._controllers.append(controller)

    def _reporter(self, controller: Controller) -> FailureReporter | None:
        if controller.subject is None:
            return None
        return FailureReporter(
            controller.name,
            controller.subject.resource,
            self.client,
            self.freshness,
            self.recorder,
            self.clock,
        )

    def add_service(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Something else to run as long as the process, from the start, leader or not."""
        self._services.append((name, run))

    @property
    def troubles(self) -> tuple[str, ...]:
        """Why caches may be out of date; empty when all is well."""
        found = (one.trouble for one in self._informers.values())
        return tuple(dict.fromkeys(trouble for trouble in found if trouble))

    def at_end_of_term(self, handler: Callable[[], None]) -> None:
        """Call `handler` whenever the lease is lost: what only a leader does or knows ends there."""
        self._term_end_handlers.append(handler)

    @property
    def ready(self) -> bool:
        """All caches that are needed from the start have been filled once."""
        return all(one.is_filled or one.on_demand for one in self._informers.values())

    def stop(self) -> None:
        """Ask for a graceful end; `run` returns when the rounds are finished."""
        self._stopping.set()

    async def run(self, leadership: Leadership | None = None) -> None:
        """Run until `stop`. Controllers work while we lead; without `leadership`, always."""
        for informer in self._informers.values():
            self.begin(informer)
        background = list(self._begun.values())
        background += [asyncio.create_task(run(), name=name) for name, run in self._services]
        background.append(asyncio.create_task(self.recorder.run(), name="recorder"))
        stopping = asyncio.create_task(self._stopping.wait(), name="stop")
        work = asyncio.create_task(self._work(leadership), name="controllers")
        try:
            await self._supervise(background, work, stopping)
            await self._drain()
            await self.recorder.flush()
        finally:
            await self._end([*background, stopping, work])
            self.freshness.close()

    async def _work(self, leadership: Leadership | None) -> None:
        """Run the controllers, again and again if the lease is lost and won back."""
        if leadership is None:
            await self._run_controllers()
        while leadership is not None:
            await leadership.gained()
            if self._gate:
                self._gate.enter_term()
            term = asyncio.create_task(self._run_term(), name="term")
            lost = asyncio.create_task(leadership.lost(), name="lost")
            try:
                ended, _ = await asyncio.wait([term, lost], return_when=asyncio.FIRST_COMPLETED)
            finally:
                await self._end([term, lost])
                for handler in self._term_end_handlers:
                    handler()
            if term in ended:
                term.result()
                return

    async def _run_term(self) -> None:
        await asyncio.gather(*(self._catch_up(one) for one in self._informers.values()))
        await self._run_controllers()

    async def _catch_up(self, informer: Informer[Any]) -> None:
        """Another led until now, and a watch of ours may lag: its last writes are not ours, so that
        freshness does not wait for them. A cache that is not filled yet is new enough."""
        failures, behind = 0, informer.synced.is_set()
        while behind:
            try:
                await informer.read_all()
                behind = False
            except MantaError as error:
                if informer.on_demand and isinstance(error, NotFound) and error.of_type:
                    return  # uninstalled since; `informer.trouble` says so to those that need it
                failures += 1
                log.warning("cannot list %s to begin: %s", informer.resource.plural, error)
                await asyncio.sleep(WATCH_BACKOFF.delay(failures, self.random))

    async def _run_controllers(self) -> None:
        if not self._controllers:
            await self._stopping.wait()
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers:
                group.create_task(controller.run(), name=controller.name)

    async def _supervise(
        self,
        background: Sequence[asyncio.Task[None]],
        work: asyncio.Task[None],
        stopping: asyncio.Task[Any],
    ) -> None:
        """Return when asked to stop; raise as soon as anything else comes to an end."""
        tasks: list[asyncio.Task[Any]] = [*background, work, stopping]
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if stopping in ended:
            return
        for task in ended:
            task.result()  # raises what ended it
            raise TaskEnded(f"{task.get_name()} came to an end")

    async def _drain(self) -> None:
        """Start no more rounds, and give the running ones time to finish."""
        for controller in self._controllers:
            controller.queue.close()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                for controller in self._controllers:
                    await controller.queue.idle()
        except TimeoutError:
            log.warning("rounds are still running after %.0f s: ending them", DRAIN_SECONDS)

    @staticmethod
    async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
