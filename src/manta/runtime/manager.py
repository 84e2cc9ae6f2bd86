"""Starts, supervises and stops everything in an operator process.

Informers are shared. Controllers start only while this process leads, on caches no older than that. A task
that ends unexpectedly ends the whole run with its error: half an operator is worse than a restarted one. On
`stop` no new reconcile starts, and the running ones get time to finish.
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
from manta.runtime.controller_metrics import RuntimeMetrics
from manta.runtime.election import Leadership
from manta.runtime.failures import FailureReporter
from manta.runtime.freshness import Freshness
from manta.runtime.gate import WriteGate
from manta.runtime.index import IndexFunction
from manta.runtime.informer import Informer
from manta.runtime.metrics import Registry
from manta.runtime.recorder import Recorder
from manta.runtime.reflector import WatchTiming

T = TypeVar("T", bound=Named)

log = logging.getLogger(__name__)

DRAIN_SECONDS = 20.0
"""How long running reconciles may take to finish after `stop`; less than Kubernetes' grace period of 30 s."""


class TaskEnded(RuntimeError):  # noqa: N818  named by what is so
    """A task that should run as long as the process has ended."""


class Manager:
    def __init__(  # noqa: PLR0913  the dependencies of the whole operator
        self,
        client: Client,
        clock: Clock,
        random: Random,
        *,
        namespaces: Sequence[str] = (),
        registry: Registry | None = None,
        recorder: Recorder | None = None,
        timing: WatchTiming | None = None,
        gate: WriteGate | None = None,
        concurrency: int | None = None,
        observer: Callable[[Any], None] | None = None,
    ) -> None:
        """`namespaces`: those to watch; none means all. `concurrency`: the least number of workers of
        each controller; None leaves it to them. `observer`: gets every reconcile when it has ended
        (`reconcile/observer.py`)."""
        self.client = client
        self.clock = clock
        self.random = random
        self.namespaces = tuple(namespaces)
        self.registry = registry if registry is not None else Registry()
        self.metrics = RuntimeMetrics(self.registry)
        self.freshness = Freshness(random)
        self.recorder = recorder or Recorder(client, clock, random)
        self.concurrency = concurrency
        self.observer = observer
        self._timing = timing
        self._gate = gate
        self._informers: dict[tuple[Resource, type[Any], str, str], Informer[Any]] = {}
        self._informer_tasks: dict[Informer[Any], asyncio.Task[None]] = {}
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
        """The shared informer of these objects. Further calls return the same one and may add indexes."""
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
                timing=self._timing,
                on_demand=on_demand,
            )
            self._informers[address] = informer
            self.freshness.track(informer)
        for name, values in (indexes or {}).items():
            informer.add_index(name, values)
        return informer

    def start_informer(self, informer: Informer[Any]) -> None:
        """Start an informer before `run`, so that it lists while the rest is set up."""
        if informer not in self._informer_tasks:
            name = informer.resource.plural
            self._informer_tasks[informer] = asyncio.create_task(informer.run(), name=name)

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
            controller.failure_condition,
        )

    def add_service(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Add a task that runs as long as the process, whether it leads or not."""
        self._services.append((name, run))

    @property
    def watch_errors(self) -> tuple[str, ...]:
        """Why caches may be out of date; empty if all watches work."""
        found = (one.watch_error for one in self._informers.values())
        return tuple(dict.fromkeys(problem for problem in found if problem))

    def on_leadership_lost(self, handler: Callable[[], None]) -> None:
        """Call `handler` whenever the lease is lost."""
        self._term_end_handlers.append(handler)

    @property
    def ready(self) -> bool:
        """Whether all caches, except those on demand, have synced."""
        return all(one.has_synced or one.on_demand for one in self._informers.values())

    def stop(self) -> None:
        """Stop gracefully: `run` returns when the running reconciles have finished."""
        self._stopping.set()

    async def run(self, leadership: Leadership | None = None) -> None:
        """Run until `stop`. Controllers run while this process leads; without `leadership`, always. Raises
        TaskEnded, or the error of the task that ended."""
        for informer in self._informers.values():
            self.start_informer(informer)
        background = list(self._informer_tasks.values())
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
        """Run the controllers during each term of leadership."""
        if leadership is None:
            await self._run_controllers()
        is_first = True
        while leadership is not None:
            await leadership.gained()
            if self._gate:
                self._gate.enter_term()
            term = asyncio.create_task(self._run_term(is_first=is_first), name="term")
            is_first = False
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

    async def _run_term(self, *, is_first: bool) -> None:
        """What controllers remembered, as the queries of dashboards, ended with the last term: after the first one
        everything is reconciled again."""
        await asyncio.gather(*(self._catch_up(one) for one in self._informers.values()))
        if not is_first:
            for controller in self._controllers:
                controller.enqueue_all()
        await self._run_controllers()

    async def _catch_up(self, informer: Informer[Any]) -> None:
        """List again before the controllers start: another process led until now, and a lagging watch may
        miss its last writes. A cache that has not synced yet is new enough."""
        failures, behind = 0, informer.synced.is_set()
        while behind:
            try:
                await informer.read_all()
                behind = False
            except MantaError as error:
                if informer.on_demand and isinstance(error, NotFound) and error.of_type:
                    return  # uninstalled since: `informer.watch_error` has it
                failures += 1
                log.warning(
                    "cannot list %s before the controllers start: %s",
                    informer.resource.plural,
                    error,
                )
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
        """Return when `stop` is called. Raises as soon as any other task ends."""
        tasks: list[asyncio.Task[Any]] = [*background, work, stopping]
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if stopping in ended:
            return
        for task in ended:
            task.result()  # raises what ended it
            raise TaskEnded(f"{task.get_name()} ended unexpectedly")

    async def _drain(self) -> None:
        """Start no more reconciles, and give the running ones time to finish."""
        for controller in self._controllers:
            controller.queue.close()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                for controller in self._controllers:
                    await controller.queue.idle()
        except TimeoutError:
            log.warning("reconciles are still running after %.0f s: cancelling them", DRAIN_SECONDS)

    @staticmethod
    async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
