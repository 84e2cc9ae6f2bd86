"""The containers of one Pod: started, watched, stopped, and what their ends mean.

It does what the plan says and writes what happened into the Pod's book; it decides nothing about time.
"""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

from manta.kube.errors import MantaError
from manta.localplane.node import events
from manta.localplane.node.attempts import attempt_directory, ended_of, write_ended
from manta.localplane.node.events import PodEvents
from manta.localplane.node.logs import last_lines
from manta.localplane.node.podbook import PodBook
from manta.localplane.node.podruntime import DEED_ERRORS, PodRuntime
from manta.localplane.node.podspec import Container
from manta.localplane.node.prober import Watching
from manta.localplane.node.probes import Answer
from manta.localplane.node.probing import ProbeKind
from manta.localplane.node.restarts import crashes_after, delay_before_restart, runs_again
from manta.localplane.node.snapshot import Ended, Life, Step, Stopping, Task

_HOOK_TIMEOUT = 3600.0


class ContainerKeeper:
    def __init__(self, book: PodBook, runtime: PodRuntime, told: PodEvents) -> None:
        self._book = book
        self._runtime = runtime
        self._events = told

    # ── starting ───────────────────────────────────────────────────────────────────────
    def start(self, container: str, attempt: int) -> None:
        self._begin(container, attempt)
        self._book.spawn(self._start(self._book.spec(container), attempt))

    def _begin(self, container: str, attempt: int) -> None:
        facts = self._book.of(container)
        self._book.change(
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
        before = self._book.of(container.name)
        if container.volume_mounts and not self._runtime.isolated:
            paths = ", ".join(mount.mount_path for mount in container.volume_mounts)
            self._events.tell(events.NOT_MOUNTED, f"isolation is off, nothing is at {paths}")
        try:
            await self._runtime.start(container, attempt)
        except (*DEED_ERRORS, MantaError) as error:
            self._events.tell(events.START_FAILED, f"Error: {error}")
            task = self._book.trouble(
                f"start {container.name}", "CreateContainerConfigError", str(error)
            )
            life = Life.ENDED if before.last else Life.NONE
            self._book.change(
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
    def started(self, container: str, attempt: int, started: float) -> None:
        if self._book.of(container).attempt != attempt:
            return
        self._book.forget_trouble(f"start {container}")
        self._events.tell(events.STARTED, f"Container started: {container}")
        self._book.change(container, life=Life.RUNNING, started=started, start=Task())
        hook = self._book.spec(container).lifecycle.post_start
        if hook is not None:
            self._book.spawn(self._after_start(self._book.spec(container), attempt))

    async def _after_start(self, container: Container, attempt: int) -> None:
        hook = container.lifecycle.post_start
        if hook is None:
            return
        answer = await self._runtime.ask(container, attempt, hook, _HOOK_TIMEOUT)
        if not answer.success and self._book.of(container.name).attempt == attempt:
            self._events.tell(events.HOOK_FAILED, f"PostStartHook failed: {answer.words}")
            self._book.change(container.name, sick="FailedPostStartHook")

    def ended(self, container: str, attempt: int, news: dict[str, Any]) -> None:
        facts = self._book.of(container)
        if facts.attempt != attempt or facts.life is Life.ENDED:
            return
        directory = attempt_directory(self._runtime.directory, container, attempt)
        ended = ended_of(news, directory)
        spec = self._book.spec(container)
        if ended.error:
            self._events.tell(events.START_FAILED, f"Error: {ended.error}")
        wants_log = spec.termination_message_policy == "FallbackToLogsOnError"
        if wants_log and ended.code and not ended.message:
            ended = replace(ended, message=last_lines(directory / "log", lines=80, limit=2048))
        self._end(container, ended)

    def _end(self, container: str, ended: Ended) -> None:
        facts = self._book.of(container)
        crashes = crashes_after(facts.crashes, ended.started, ended.finished)
        spec = self._book.spec(container)
        if runs_again(self._book.pod, spec, ended.code) and delay_before_restart(crashes):
            meta = self._book.pod.metadata
            note = (
                f"Back-off restarting failed container {container} in pod"
                f" {meta.name}_{meta.namespace}({meta.uid})"
            )
            self._events.tell(events.RESTART_BACK_OFF, note)
        self._book.change(
            container,
            life=Life.ENDED,
            ended=ended,
            stopping=None,
            ready=False,
            startup_passed=False,
            start=Task(),
            crashes=crashes,
        )

    def end_with_sandbox(self, container: str) -> None:
        """It was killed together with all of its Pod."""
        facts = self._book.of(container)
        ended = Ended(
            code=137, started=facts.started or self._book.now(), finished=self._book.now()
        )
        directory = attempt_directory(self._runtime.directory, container, facts.attempt)
        write_ended(directory, ended)
        self._end(container, ended)

    # ── stopping ───────────────────────────────────────────────────────────────────────
    def stop(self, container: str, grace: float, why: str) -> None:
        now = self._book.now()
        self._book.change(container, stopping=Stopping(now, now + grace))
        note = f"Stopping container {container}"
        if why:
            note = f"Container {container} failed {why}, will be restarted"
        self._events.tell(events.KILLING, note)
        self._book.spawn(self._terminate(self._book.spec(container), grace))

    async def _terminate(self, container: Container, grace: float) -> None:
        facts = self._book.of(container.name)
        hook = container.lifecycle.pre_stop
        if hook is not None and grace > 0 and facts.life is Life.RUNNING:
            answer = await self._runtime.ask(container, facts.attempt, hook, grace)
            if not answer.success:
                self._events.tell(events.STOP_HOOK_FAILED, f"PreStopHook failed: {answer.words}")
        number = signal.SIGTERM if grace > 0 else signal.SIGKILL
        try:
            await self._runtime.signal(container.name, facts.attempt, number)
        except DEED_ERRORS:
            return  # it ended meanwhile, and its end is told by itself

    def kill(self, container: str) -> None:
        facts = self._book.of(container)
        if facts.stopping is not None:
            self._book.change(container, stopping=replace(facts.stopping, killed=True))
        self._book.spawn(self._kill_now(container, facts.attempt))

    async def _kill_now(self, container: str, attempt: int) -> None:
        try:
            await self._runtime.kill(container, attempt)
        except DEED_ERRORS:
            return

    # ── probes ─────────────────────────────────────────────────────────────────────────
    def judge(self, watching: Watching, success: bool) -> None:  # noqa: FBT001
        facts = self._book.of(watching.container)
        if facts.attempt != watching.attempt or facts.life is not Life.RUNNING:
            return
        match watching.kind:
            case ProbeKind.READINESS:
                if facts.ready != success:
                    self._book.change(watching.container, ready=success)
            case ProbeKind.STARTUP if success:
                self._book.change(watching.container, startup_passed=True)
            case ProbeKind.STARTUP | ProbeKind.LIVENESS:
                if not success and not facts.sick:
                    self._fall_sick(watching)

    def _fall_sick(self, watching: Watching) -> None:
        spec = self._book.spec(watching.container)
        startup = watching.kind is ProbeKind.STARTUP
        probe = spec.startup_probe if startup else spec.liveness_probe
        self._book.change(
            watching.container,
            sick=f"{watching.kind.lower()} probe",
            sick_grace=probe.termination_grace_period_seconds if probe else None,
        )

    def probe_failed(self, watching: Watching, answer: Answer) -> None:
        self._events.tell(events.UNHEALTHY, f"{watching.kind} probe failed: {answer.words}")
