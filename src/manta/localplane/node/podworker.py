"""One Pod's life on this node: a loop of look, plan, act, report.

The loop sleeps until something happens: the Pod's object changed, its init told news, a probe changed
its mind, a deed ended, or a moment came that the plan named. All facts are changed here, in one place.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, assert_never

from manta.api.resources import PODS
from manta.api.times import parse_optional_time
from manta.kube.client import Client
from manta.kube.errors import Conflict, MantaError, NotFound
from manta.localplane.node import events
from manta.localplane.node.attempts import attempt_directory, ended_of, write_ended
from manta.localplane.node.events import PodEvents
from manta.localplane.node.logs import last_lines
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
    plan_pod,
)
from manta.localplane.node.podpulls import Puller
from manta.localplane.node.podruntime import DEED_ERRORS, PodRuntime
from manta.localplane.node.podspec import Container, NodePod
from manta.localplane.node.prober import Prober, Watching
from manta.localplane.node.probes import Answer
from manta.localplane.node.probing import ProbeKind
from manta.localplane.node.restarts import crashes_after, delay_before_restart, runs_again
from manta.localplane.node.snapshot import (
    ContainerFacts,
    Ended,
    Life,
    PodFacts,
    PodSnapshot,
    Step,
    Stopping,
    Task,
    Trouble,
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
        self.pod = pod
        self.runtime = runtime
        self._client = client
        self._clock = clock
        self._events = told
        self._facts = PodFacts()
        self._accepted = self._now()
        self.taken_up = asyncio.Event()
        """Set when it is known what an earlier agent left of the Pod."""
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._tries: dict[str, int] = {}
        self._reported: dict[str, Any] | None = None
        self._object_gone = False
        self._done = False
        self._finishing = False
        self._vanished = False
        self._puller = Puller(runtime, clock, told, self)
        self._prober = Prober(runtime, self._judge, self._probe_failed)

    # ── from outside ───────────────────────────────────────────────────────────────────
    @property
    def facts(self) -> PodFacts:
        return self._facts

    def see(self, pod: NodePod) -> None:
        """The Pod's object has changed."""
        before = {one.name: one.resources for one in self.pod.containers()}
        self.pod = pod
        self.runtime.see(pod)
        for container in pod.containers():
            running = self.of(container.name).life is Life.RUNNING
            if running and container.resources != before.get(container.name):
                self.runtime.resize(container)
        self._wake.set()

    def object_is_gone(self) -> None:
        """The API server forgot the Pod without waiting for us: end it at once."""
        self._object_gone = True
        self._wake.set()

    def vanish(self) -> None:
        """The node is lost: end everything at once, and tell nobody."""
        self._vanished = True
        self._wake.set()

    async def refresh_volumes(self) -> None:
        """Bring files made from API objects up to date. Trouble waits for the next time."""
        if self._facts.volumes.step is not Step.DONE or not has_changing_files(self.pod):
            return
        try:
            await self.runtime.prepare_volumes(self._now())
        except (*DEED_ERRORS, MantaError) as error:
            log.info("volumes of Pod %s not refreshed: %s", self.pod.metadata.key, error)

    async def run(self) -> None:
        """Until nothing of the Pod is left here. Cancelled: leave the Pod running."""
        try:
            await self._take_up()
            self.taken_up.set()
            while not self._done:
                self._wake.clear()
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
                self._container_started(*_split(news["id"]), float(news["started"]))
            case "exited":
                self._container_ended(*_split(news["id"]), news)
            case "sandbox-ended":
                self._sandbox_ended()
            case _:
                return

    # ── the loop ───────────────────────────────────────────────────────────────────────
    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _look(self) -> PodSnapshot:
        if self.pod.metadata.deletion_timestamp and self._facts.terminating_since is None:
            self._facts = replace(self._facts, terminating_since=self._now())
        return PodSnapshot(
            self.pod,
            self._facts,
            self._now(),
            self.runtime.host_address,
            self._accepted,
        )

    async def _take_up(self) -> None:
        started = parse_optional_time(self.pod.status.start_time)
        if started is not None:
            self._accepted = started.timestamp()
        adopted = await self.runtime.adopt()
        if adopted is None:
            return
        containers = dict(adopted.containers)
        for container in self.pod.containers():
            image_id = self.runtime.image_present(container)
            if image_id is not None:
                facts = containers[container.name]
                containers[container.name] = replace(
                    facts, image=Task(Step.DONE), image_id=image_id
                )
        sandbox = Task(Step.DONE) if adopted.running else Task()
        self._facts = replace(
            self._facts, sandbox=sandbox, address=adopted.address, containers=containers
        )
        self._recall_probes()

    def _recall_probes(self) -> None:
        """A container that was ready before the agent's restart stays so until a probe says no."""
        known = (*self.pod.status.init_container_statuses, *self.pod.status.container_statuses)
        for status in known:
            facts = self._facts.containers.get(status["name"])
            if facts is not None and facts.life is Life.RUNNING:
                self.change(
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
            await self._wake.wait()
            return
        try:
            async with asyncio.timeout(max(moment - self._now(), 0.0)):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _report(self, seen: PodSnapshot) -> bool:
        """Write the status if it differs. False: look again at once."""
        status = next_status(seen)
        if status == self._reported:
            return True
        body = {"metadata": {"uid": self.pod.metadata.uid}, "status": status}
        try:
            await self._client.patch(PODS, self.pod.metadata.key, body, subresource="status")
        except (NotFound, Conflict):
            self._object_gone = True
            return False
        except MantaError as error:
            log.warning("status of Pod %s not written: %s", self.pod.metadata.key, error)
            await asyncio.sleep(1)
            return False
        self._reported = status
        return True

    # ── changing facts ─────────────────────────────────────────────────────────────────
    def of(self, container: str) -> ContainerFacts:
        return self._facts.containers.get(container, ContainerFacts())

    def change(self, container: str, **changes: Any) -> None:
        facts = replace(self.of(container), **changes)
        self._facts = replace(self._facts, containers={**self._facts.containers, container: facts})
        self._wake.set()

    def _change_pod(self, **changes: Any) -> None:
        self._facts = replace(self._facts, **changes)
        self._wake.set()

    def _spec(self, container: str) -> Container:
        return next(one for one in self.pod.containers() if one.name == container)

    def trouble(self, what: str, reason: str, message: str, delays: tuple[float, ...]) -> Task:
        tries = self._tries.get(what, 0)
        self._tries[what] = tries + 1
        retry_at = self._now() + delays[min(tries, len(delays) - 1)]
        return Task(Step.FAILED, Trouble(reason, message, retry_at))

    # ── performing ─────────────────────────────────────────────────────────────────────
    def _perform(self, action: PodAction) -> None:
        match action:
            case PrepareVolumes():
                self._change_pod(volumes=replace(self._facts.volumes, step=Step.UNDER_WAY))
                self.spawn(self._prepare_volumes())
            case CreateSandbox():
                self._change_pod(sandbox=replace(self._facts.sandbox, step=Step.UNDER_WAY))
                self.spawn(self._create_sandbox())
            case PullImage(container):
                image = replace(self.of(container).image, step=Step.UNDER_WAY)
                self.change(container, image=image)
                self.spawn(self._puller.pull(self._spec(container)))
            case StartContainer(container, attempt):
                self._begin_attempt(container, attempt)
                self.spawn(self._start(self._spec(container), attempt))
            case StopContainer(container, grace, why):
                self._stop(container, grace, why)
            case KillContainer(container):
                self._kill(container)
            case KillSandbox():
                self._change_pod(sandbox=Task(Step.UNDER_WAY))
                self.spawn(self._kill_sandbox())
            case FinishDeletion():
                if not self._finishing:
                    self._finishing = True
                    self.spawn(self._finish_deletion())
            case _:
                assert_never(action)

    def spawn(self, deed: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guarded(deed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, deed: Coroutine[Any, Any, None]) -> None:
        try:
            await deed
        except Exception:
            log.exception("Pod %s: a deed failed", self.pod.metadata.key)
        finally:
            self._wake.set()

    def _stop_tasks(self) -> None:
        self._prober.close()
        for task in tuple(self._tasks):
            task.cancel()

    # ── deeds ──────────────────────────────────────────────────────────────────────────
    async def _prepare_volumes(self) -> None:
        try:
            await self.runtime.prepare_volumes(self._now())
        except (*DEED_ERRORS, MantaError) as error:
            message = f"MountVolume.SetUp failed: {error}"
            self._events.tell(events.MOUNT_FAILED, message)
            task = self.trouble("volumes", "FailedMount", message, _DEED_DELAYS)
            self._change_pod(volumes=task)
        else:
            self._change_pod(volumes=Task(Step.DONE))

    async def _create_sandbox(self) -> None:
        try:
            address = await self.runtime.create_sandbox()
        except DEED_ERRORS as error:
            message = f"Failed to create pod sandbox: {error}"
            self._events.tell(events.SANDBOX_FAILED, message)
            task = self.trouble("sandbox", "FailedCreatePodSandBox", message, _DEED_DELAYS)
            self._change_pod(sandbox=task)
        else:
            self._change_pod(sandbox=Task(Step.DONE), address=address)

    def _begin_attempt(self, container: str, attempt: int) -> None:
        facts = self.of(container)
        self.change(
            container,
            life=Life.STARTING,
            attempt=attempt,
            last=facts.ended or facts.last,
            ended=None,
            stopping=None,
            startup_passed=False,
            ready=False,
            sick="",
            sick_grace=None,
            start=replace(facts.start, step=Step.UNDER_WAY),
        )

    async def _start(self, container: Container, attempt: int) -> None:
        before = self.of(container.name)
        if container.volume_mounts and not self.runtime.isolated:
            paths = ", ".join(mount.mount_path for mount in container.volume_mounts)
            self._events.tell(events.NOT_MOUNTED, f"isolation is off, nothing is at {paths}")
        try:
            await self.runtime.start(container, attempt)
        except (*DEED_ERRORS, MantaError) as error:
            self._events.tell(events.START_FAILED, f"Error: {error}")
            task = self.trouble(
                f"start {container.name}", "CreateContainerConfigError", str(error), _DEED_DELAYS
            )
            life = Life.ENDED if before.last else Life.NONE
            self.change(
                container.name,
                start=task,
                life=life,
                attempt=attempt - 1,
                ended=before.last,
                last=None,
            )
        else:
            self._events.tell(events.CREATED, f"Container created: {container.name}")

    # ── news of containers ─────────────────────────────────────────────────────────────
    def _container_started(self, container: str, attempt: int, started: float) -> None:
        if self.of(container).attempt != attempt:
            return
        self._tries.pop(f"start {container}", None)
        self._events.tell(events.STARTED, f"Container started: {container}")
        self.change(container, life=Life.RUNNING, started=started, start=Task())
        hook = self._spec(container).lifecycle.post_start
        if hook is not None:
            self.spawn(self._after_start(self._spec(container), attempt))

    async def _after_start(self, container: Container, attempt: int) -> None:
        hook = container.lifecycle.post_start
        if hook is None:
            return
        answer = await self.runtime.ask(container, attempt, hook, _HOOK_TIMEOUT)
        if not answer.success and self.of(container.name).attempt == attempt:
            self._events.tell(events.HOOK_FAILED, f"PostStartHook failed: {answer.words}")
            self.change(container.name, sick="FailedPostStartHook")

    def _container_ended(self, container: str, attempt: int, news: dict[str, Any]) -> None:
        facts = self.of(container)
        if facts.attempt != attempt or facts.life is Life.ENDED:
            return
        directory = attempt_directory(self.runtime.directory, container, attempt)
        ended = ended_of(news, directory)
        spec = self._spec(container)
        if ended.error:
            self._events.tell(events.START_FAILED, f"Error: {ended.error}")
        wants_log = spec.termination_message_policy == "FallbackToLogsOnError"
        if wants_log and ended.code and not ended.message:
            ended = replace(ended, message=last_lines(directory / "log", lines=80, limit=2048))
        self._end(container, ended)

    def _end(self, container: str, ended: Ended) -> None:
        facts = self.of(container)
        crashes = crashes_after(facts.crashes, ended.started, ended.finished)
        spec = self._spec(container)
        if runs_again(self.pod, spec, ended.code) and delay_before_restart(crashes):
            meta = self.pod.metadata
            note = (
                f"Back-off restarting failed container {container} in pod"
                f" {meta.name}_{meta.namespace}({meta.uid})"
            )
            self._events.tell(events.RESTART_BACK_OFF, note)
        self.change(
            container,
            life=Life.ENDED,
            ended=ended,
            stopping=None,
            ready=False,
            startup_passed=False,
            start=Task(),
            crashes=crashes,
        )

    def _sandbox_ended(self) -> None:
        """All processes of the Pod are gone at once. Init containers must run again."""
        self.runtime.forget_sandbox()
        self.runtime.release_address()
        for container in self.pod.containers():
            facts = self.of(container.name)
            if facts.life in (Life.STARTING, Life.RUNNING):
                self._end_with_sandbox(container.name, facts)
            elif container in self.pod.spec.init_containers and facts.attempt >= 0:
                self.change(container.name, life=Life.NONE, ended=None, last=facts.ended)
        if self._facts.sandbox.step is Step.DONE:
            note = "Pod sandbox changed, it will be killed and re-created."
            self._events.tell(events.SANDBOX_CHANGED, note)
            self._change_pod(sandbox=Task())

    def _end_with_sandbox(self, container: str, facts: ContainerFacts) -> None:
        ended = Ended(code=137, started=facts.started or self._now(), finished=self._now())
        directory = attempt_directory(self.runtime.directory, container, facts.attempt)
        write_ended(directory, ended)
        self._end(container, ended)

    # ── stopping ───────────────────────────────────────────────────────────────────────
    def _stop(self, container: str, grace: float, why: str) -> None:
        now = self._now()
        self.change(container, stopping=Stopping(now, now + grace))
        note = f"Stopping container {container}"
        if why:
            note = f"Container {container} failed {why}, will be restarted"
        self._events.tell(events.KILLING, note)
        self.spawn(self._terminate(self._spec(container), grace))

    async def _terminate(self, container: Container, grace: float) -> None:
        facts = self.of(container.name)
        hook = container.lifecycle.pre_stop
        if hook is not None and grace > 0 and facts.life is Life.RUNNING:
            answer = await self.runtime.ask(container, facts.attempt, hook, grace)
            if not answer.success:
                self._events.tell(events.STOP_HOOK_FAILED, f"PreStopHook failed: {answer.words}")
        number = signal.SIGTERM if grace > 0 else signal.SIGKILL
        try:
            await self.runtime.signal(container.name, facts.attempt, number)
        except DEED_ERRORS:
            return  # it ended meanwhile, and its end is told by itself

    def _kill(self, container: str) -> None:
        facts = self.of(container)
        if facts.stopping is not None:
            self.change(container, stopping=replace(facts.stopping, killed=True))
        self.spawn(self._kill_now(container, facts.attempt))

    async def _kill_now(self, container: str, attempt: int) -> None:
        try:
            await self.runtime.kill(container, attempt)
        except DEED_ERRORS:
            return

    async def _kill_sandbox(self) -> None:
        await self.runtime.kill_sandbox()
        self.runtime.release_address()
        self._change_pod(sandbox=Task())

    async def _finish_deletion(self) -> None:
        """First the machine, then the object: whoever sees the object gone finds nothing left."""
        await self.runtime.remove()
        meta = self.pod.metadata
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

    # ── probes ─────────────────────────────────────────────────────────────────────────
    def _judge(self, watching: Watching, success: bool) -> None:  # noqa: FBT001
        facts = self.of(watching.container)
        if facts.attempt != watching.attempt or facts.life is not Life.RUNNING:
            return
        match watching.kind:
            case ProbeKind.READINESS:
                if facts.ready != success:
                    self.change(watching.container, ready=success)
            case ProbeKind.STARTUP if success:
                self.change(watching.container, startup_passed=True)
            case ProbeKind.STARTUP | ProbeKind.LIVENESS:
                if not success and not facts.sick:
                    self._fall_sick(watching)

    def _fall_sick(self, watching: Watching) -> None:
        spec = self._spec(watching.container)
        startup = watching.kind is ProbeKind.STARTUP
        probe = spec.startup_probe if startup else spec.liveness_probe
        self.change(
            watching.container,
            sick=f"{watching.kind.lower()} probe",
            sick_grace=probe.termination_grace_period_seconds if probe else None,
        )

    def _probe_failed(self, watching: Watching, answer: Answer) -> None:
        self._events.tell(events.UNHEALTHY, f"{watching.kind} probe failed: {answer.words}")


def _split(container_id: str) -> tuple[str, int]:
    name, _, attempt = container_id.rpartition("/")
    return name, int(attempt)
