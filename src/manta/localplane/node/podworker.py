"""One Pod's life on this node: a loop of look, plan, act, report.

The loop sleeps until something happens: the Pod's object changed, its init told news, a probe changed
its mind, a deed ended, or a moment came that the plan named. All facts are changed here, in one place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, assert_never

from manta.api.resources import PODS
from manta.api.times import parse_optional_time
from manta.kube.client import Client
from manta.kube.errors import Conflict, MantaError, NotFound
from manta.localplane.node import events
from manta.localplane.node.attempts import recall
from manta.localplane.node.containerkeeper import ContainerKeeper
from manta.localplane.node.events import PodEvents
from manta.localplane.node.plan import (
    CreateSandbox,
    FinishDeletion,
    KillContainer,
    KillSandbox,
    PodAction,
    PrepareVolumes,
    PullImage,
    StartContainer,
    StopContainer,
    has_succeeded,
    plan_pod,
)
from manta.localplane.node.podbook import PodBook
from manta.localplane.node.podpulls import Puller
from manta.localplane.node.podruntime import DEED_ERRORS, PodRuntime
from manta.localplane.node.podspec import NodePod
from manta.localplane.node.prober import Prober
from manta.localplane.node.snapshot import (
    ContainerFacts,
    Life,
    PodFacts,
    PodSnapshot,
    Step,
    Task,
)
from manta.localplane.node.status import next_status
from manta.localplane.node.volumefiles import has_changing_files
from manta.runtime.clock import Clock

log = logging.getLogger(__name__)

_DEED_DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
_HOOK_TIMEOUT = 3600.0


class PodWorker:
    def __init__(
        self, pod: NodePod, runtime: PodRuntime, client: Client, clock: Clock, told: PodEvents
    ) -> None:
        self.runtime = runtime
        self._client = client
        self._clock = clock
        self._events = told
        self._book = PodBook(pod, self._now)
        self._accepted = self._now()
        self.taken_up = asyncio.Event()
        """Set when it is known what an earlier agent left of the Pod."""
        self._reported: dict[str, Any] | None = None
        self._object_gone = False
        self._done = False
        self._finishing = False
        self._vanished = False
        self._puller = Puller(runtime, clock, told, self._book)
        self._containers = keeper = ContainerKeeper(self._book, runtime, told)
        self._prober = Prober(runtime, keeper.judge, keeper.probe_failed)

    # ── from outside ───────────────────────────────────────────────────────────────────
    @property
    def pod(self) -> NodePod:
        return self._book.pod

    @property
    def facts(self) -> PodFacts:
        return self._book.facts

    def see(self, pod: NodePod) -> None:
        """The Pod's object has changed."""
        before = {one.name: one.resources for one in self._book.pod.containers()}
        self._book.pod = pod
        self.runtime.see(pod)
        for container in pod.containers():
            running = self._book.of(container.name).life is Life.RUNNING
            if running and container.resources != before.get(container.name):
                self.runtime.resize(container)
        self._book.wake.set()

    def object_is_gone(self) -> None:
        """The API server forgot the Pod without waiting for us: end it at once."""
        self._object_gone = True
        self._book.wake.set()

    def vanish(self) -> None:
        """The node is lost: end everything at once, and tell nobody."""
        self._vanished = True
        self._book.wake.set()

    async def refresh_volumes(self) -> None:
        """Bring files made from API objects up to date. Trouble waits for the next time."""
        if self._book.facts.volumes.step is not Step.DONE or not has_changing_files(self._book.pod):
            return
        try:
            await self.runtime.prepare_volumes(self._now())
        except (*DEED_ERRORS, MantaError) as error:
            log.info("volumes of Pod %s not refreshed: %s", self._book.pod.metadata.key, error)

    async def run(self) -> None:
        """Until nothing of the Pod is left here. Cancelled: leave the Pod running."""
        try:
            await self._take_up()
            self.taken_up.set()
            while not self._done:
                self._book.wake.clear()
                await self._round()
        except asyncio.CancelledError:
            self.runtime.leave()
            raise
        finally:
            self._stop_tasks()

    def hear(self, news: dict[str, Any]) -> None:
        """From the Pod's init."""
        match news["event"]:
            case "started":
                self._containers.started(*_split(news["id"]), float(news["started"]))
            case "exited":
                self._containers.ended(*_split(news["id"]), news)
            case "sandbox-ended":
                self._sandbox_ended()
            case _:
                return

    # ── the loop ───────────────────────────────────────────────────────────────────────
    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _look(self) -> PodSnapshot:
        if (
            self._book.pod.metadata.deletion_timestamp
            and self._book.facts.terminating_since is None
        ):
            self._book.facts = replace(self._book.facts, terminating_since=self._now())
        return PodSnapshot(
            self._book.pod,
            self._book.facts,
            self._now(),
            self.runtime.host_address,
            self._accepted,
            self.runtime.dns_trouble,
        )

    async def _take_up(self) -> None:
        started = parse_optional_time(self._book.pod.status.start_time)
        if started is not None:
            self._accepted = started.timestamp()
        adopted = await self.runtime.adopt()
        if adopted is not None and adopted.running:
            self._book.facts = replace(
                self._book.facts,
                sandbox=Task(Step.DONE),
                address=adopted.address,
                containers=dict(adopted.containers),
            )
        else:
            known = self._told() if adopted is None else adopted.containers
            self._book.facts = replace(self._book.facts, containers=self._to_run_anew(known))
        self._find_images()
        self._recall_probes()

    def _told(self) -> dict[str, ContainerFacts]:
        """No record is left here, as after `manta down`: what the Pod's status tells."""
        status = self._book.pod.status
        known = (*status.init_container_statuses, *status.container_statuses)
        return {one["name"]: recall(one) for one in known}

    def _to_run_anew(self, known: Mapping[str, ContainerFacts]) -> dict[str, ContainerFacts]:
        """In a new sandbox, init containers do their work again."""
        return {
            one.name: run_anew(known[one.name])
            if one in self._book.pod.spec.init_containers
            else known[one.name]
            for one in self._book.pod.containers()
            if one.name in known
        }

    def _find_images(self) -> None:
        for name, facts in self._book.facts.containers.items():
            image_id = self.runtime.image_present(self._book.spec(name))
            if image_id is not None and facts.attempt >= 0:
                self._book.change(name, image=Task(Step.DONE), image_id=image_id)

    def _recall_probes(self) -> None:
        """A container that was ready before the agent's restart stays so until a probe says no."""
        known = (
            *self._book.pod.status.init_container_statuses,
            *self._book.pod.status.container_statuses,
        )
        for status in known:
            facts = self._book.facts.containers.get(status["name"])
            if facts is not None and facts.life is Life.RUNNING:
                self._book.change(
                    status["name"],
                    startup_passed=bool(status.get("started")),
                    ready=bool(status.get("ready")),
                )

    async def _round(self) -> None:
        if self._vanished:
            self._stop_tasks()
            await self.runtime.kill_sandbox()
            self.runtime.release_address()
            self._done = True
            return
        if self._object_gone:
            await self._remove()
            return
        plan = plan_pod(self._look())
        for action in plan.actions:
            self._perform(action)
        if self._done:
            return
        seen = self._look()
        self._prober.follow(seen)
        if await self._report(seen):
            await self._sleep_until(plan.wake_at)

    async def _sleep_until(self, moment: float | None) -> None:
        if moment is None:
            await self._book.wake.wait()
            return
        try:
            async with asyncio.timeout(max(moment - self._now(), 0.0)):
                await self._book.wake.wait()
        except TimeoutError:
            return

    async def _report(self, seen: PodSnapshot) -> bool:
        """Write the status if it differs. False: look again at once."""
        status = next_status(seen)
        if status == self._reported:
            return True
        body = {"metadata": {"uid": self._book.pod.metadata.uid}, "status": status}
        try:
            await self._client.patch(PODS, self._book.pod.metadata.key, body, subresource="status")
        except (NotFound, Conflict):
            self._object_gone = True
            return False
        except MantaError as error:
            log.warning("status of Pod %s not written: %s", self._book.pod.metadata.key, error)
            await asyncio.sleep(1)
            return False
        self._reported = status
        return True

    # ── performing ─────────────────────────────────────────────────────────────────────
    def _perform(self, action: PodAction) -> None:
        match action:
            case PrepareVolumes():
                self._book.change_pod(
                    volumes=replace(self._book.facts.volumes, step=Step.UNDER_WAY)
                )
                self._book.spawn(self._prepare_volumes())
            case CreateSandbox():
                self._book.change_pod(
                    sandbox=replace(self._book.facts.sandbox, step=Step.UNDER_WAY)
                )
                self._book.spawn(self._create_sandbox())
            case PullImage(container):
                image = replace(self._book.of(container).image, step=Step.UNDER_WAY)
                self._book.change(container, image=image)
                self._book.spawn(self._puller.pull(self._book.spec(container)))
            case StartContainer(container, attempt):
                self._containers.start(container, attempt)
            case StopContainer(container, grace, why):
                self._containers.stop(container, grace, why)
            case KillContainer(container):
                self._containers.kill(container)
            case KillSandbox():
                self._book.change_pod(sandbox=Task(Step.UNDER_WAY))
                self._book.spawn(self._kill_sandbox())
            case FinishDeletion():
                if not self._finishing:
                    self._finishing = True
                    self._book.spawn(self._finish_deletion())
            case _:
                assert_never(action)

    def _stop_tasks(self) -> None:
        self._prober.close()
        self._book.drop_deeds()

    # ── deeds ──────────────────────────────────────────────────────────────────────────
    async def _prepare_volumes(self) -> None:
        try:
            await self.runtime.prepare_volumes(self._now())
        except (*DEED_ERRORS, MantaError) as error:
            message = f"MountVolume.SetUp failed: {error}"
            self._events.tell(events.MOUNT_FAILED, message)
            task = self._book.trouble("volumes", "FailedMount", message)
            self._book.change_pod(volumes=task)
        else:
            self._book.change_pod(volumes=Task(Step.DONE))

    async def _create_sandbox(self) -> None:
        try:
            address = await self.runtime.create_sandbox()
        except DEED_ERRORS as error:
            message = f"Failed to create pod sandbox: {error}"
            self._events.tell(events.SANDBOX_FAILED, message)
            task = self._book.trouble("sandbox", "FailedCreatePodSandBox", message)
            self._book.change_pod(sandbox=task)
        else:
            self._book.change_pod(sandbox=Task(Step.DONE), address=address)

    def _sandbox_ended(self) -> None:
        """All processes of the Pod are gone at once. Init containers must run again."""
        self.runtime.forget_sandbox()
        self.runtime.release_address()
        for container in self._book.pod.containers():
            facts = self._book.of(container.name)
            if facts.life in (Life.STARTING, Life.RUNNING):
                self._containers.end_with_sandbox(container.name)
            elif container in self._book.pod.spec.init_containers and facts.attempt >= 0:
                self._book.change(container.name, life=Life.NONE, ended=None, last=facts.ended)
        if self._book.facts.sandbox.step is Step.DONE:
            note = "Pod sandbox changed, it will be killed and re-created."
            self._events.tell(events.SANDBOX_CHANGED, note)
            self._book.change_pod(sandbox=Task())

    async def _kill_sandbox(self) -> None:
        await self.runtime.kill_sandbox()
        self.runtime.release_address()
        self._book.change_pod(sandbox=Task())

    async def _finish_deletion(self) -> None:
        """First the machine, then the object: whoever sees the object gone finds nothing left."""
        await self.runtime.remove()
        meta = self._book.pod.metadata
        try:
            await self._client.delete(PODS, meta.key, uid=meta.uid, grace_seconds=0)
        except Conflict:
            log.info("Pod %s was replaced by another of its name", meta.key)
        except MantaError as error:
            log.warning("Pod %s could not be removed: %s", meta.key, error)
            await asyncio.sleep(1)
            self._finishing = False
            return
        self._done = True

    async def _remove(self) -> None:
        self._stop_tasks()
        await self.runtime.remove()
        self._done = True


def run_anew(facts: ContainerFacts) -> ContainerFacts:
    """An init container that was through, before it runs in another sandbox."""
    if not has_succeeded(facts):
        return facts
    return replace(facts, life=Life.NONE, ended=None, last=facts.ended)


def _split(container_id: str) -> tuple[str, int]:
    name, _, attempt = container_id.rpartition("/")
    return name, int(attempt)
