"""Pulls images for the containers of one Pod; starts, probes and stops them.

It executes the actions of the plan and writes the results into the `PodState`.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from typing import Any

from manta.kube.errors import MantaError
from manta.localplane.kubelet import PULL_ERROR_SHOWN, pull_back_off, pull_failed, restart_delay
from manta.localplane.node.images.store import PullError
from manta.localplane.node.pod import events
from manta.localplane.node.pod.attempts import (
    attempt_directory,
    parse_termination,
    write_termination,
)
from manta.localplane.node.pod.events import PodEvents
from manta.localplane.node.pod.probe_results import ProbeKind
from manta.localplane.node.pod.prober import ProbeKey, Prober
from manta.localplane.node.pod.probes import ProbeResult
from manta.localplane.node.pod.restarts import should_restart
from manta.localplane.node.pod.runtime import RUNTIME_ERRORS, PodRuntime
from manta.localplane.node.pod.snapshot import ContainerState, PodSnapshot, Progress, Termination
from manta.localplane.node.pod.state import PodState
from manta.localplane.node.pod.tasks import PodTasks
from manta.localplane.node.sandbox.log_reader import last_lines
from manta.localplane.node.spec.pod_spec import Container
from manta.runtime.clock import Clock

_HOOK_TIMEOUT_SECONDS = 3600.0


class ContainerManager:
    def __init__(
        self,
        state: PodState,
        runtime: PodRuntime,
        pod_events: PodEvents,
        clock: Clock,
        tasks: PodTasks,
    ) -> None:
        self._state = state
        self._runtime = runtime
        self._events = pod_events
        self._clock = clock
        self._tasks = tasks
        self._prober = Prober(runtime, self._probed, self._probe_failed)

    def close(self) -> None:
        self._prober.close()

    # ── images ─────────────────────────────────────────────────────────────────────────
    def find_images(self) -> None:
        """Record the images of containers that an earlier agent started."""
        for name, facts in self._state.facts.containers.items():
            image_id = self._runtime.image_present(self._state.spec(name))
            if image_id is not None and facts.attempt >= 0:
                self._state.pulled(name, image_id)

    def pull(self, name: str) -> None:
        self._state.pull_requested(name)
        self._tasks.spawn(self._pull(self._state.spec(name)))

    async def _pull(self, container: Container) -> None:
        try:
            image_id = await self._image(container)
        except PullError as error:
            self._pull_failed(container, str(error), error.reason)
        except OSError as error:
            self._pull_failed(container, pull_failed(container.image, str(error)), "ErrImagePull")
        else:
            self._state.pulled(container.name, image_id)

    async def _image(self, container: Container) -> str:
        """The image's ID. Raises PullError."""
        image = container.image
        present = self._runtime.image_present(container)
        if present is not None and container.image_pull_policy != "Always":
            note = f'Container image "{image}" already present on machine'
            self._events.record(events.PULLED, note)
            return present
        if container.image_pull_policy == "Never":
            message = f'Container image "{image}" is not present with pull policy of Never'
            raise PullError(message, "ErrImageNeverPull")
        self._events.record(events.PULLING, f'Pulling image "{image}"')
        began = self._clock.monotonic()
        image_id = await self._runtime.pull(container)
        seconds = self._clock.monotonic() - began
        note = f'Successfully pulled image "{image}" in {seconds:.3f}s'
        self._events.record(events.PULLED, note)
        return image_id

    def _pull_failed(self, container: Container, message: str, reason: str) -> None:
        self._events.record(events.PULL_FAILED, message)
        failed = self._state.pull_failed(container.name, reason, message)
        if reason == "ErrImagePull":
            self._tasks.spawn(self._show_back_off(container, failed, f"{reason}: {message}"))

    async def _show_back_off(self, container: Container, failed: Progress, failure: str) -> None:
        """Like a kubelet, show the error first, then that the pull backs off."""
        await asyncio.sleep(PULL_ERROR_SHOWN)
        if self._state.container(container.name).image == failed:
            self._events.record(events.PULL_BACK_OFF, pull_back_off(container.image))
            self._state.pull_backs_off(container.name, pull_back_off(container.image, failure))

    # ── starting ───────────────────────────────────────────────────────────────────────
    def start(self, name: str, attempt: int) -> None:
        self._state.start_requested(name, attempt)
        self._tasks.spawn(self._start(self._state.spec(name), attempt))

    async def _start(self, container: Container, attempt: int) -> None:
        if container.volume_mounts and not self._runtime.isolated:
            paths = ", ".join(mount.mount_path for mount in container.volume_mounts)
            self._events.record(events.NOT_MOUNTED, f"isolation is off, nothing is at {paths}")
        try:
            await self._runtime.start(container, attempt)
        except (*RUNTIME_ERRORS, MantaError) as error:
            self._events.record(events.START_FAILED, f"Error: {error}")
            self._state.start_failed(container.name, str(error))
        else:
            self._events.record(events.CREATED, f"Container created: {container.name}")

    def started(self, name: str, attempt: int, started: float) -> None:
        """Called when the Pod's init process reports that the container runs."""
        if self._state.container(name).attempt != attempt:
            return
        self._events.record(events.STARTED, f"Container started: {name}")
        self._state.started(name, started)
        if self._state.spec(name).lifecycle.post_start is not None:
            self._tasks.spawn(self._post_start(self._state.spec(name), attempt))

    async def _post_start(self, container: Container, attempt: int) -> None:
        hook = container.lifecycle.post_start
        if hook is None:
            return
        result = await self._runtime.run_handler(container, attempt, hook, _HOOK_TIMEOUT_SECONDS)
        if not result.success and self._state.container(container.name).attempt == attempt:
            self._events.record(events.HOOK_FAILED, f"PostStartHook failed: {result.message}")
            self._state.unhealthy(container.name, "FailedPostStartHook")

    # ── exits ─────────────────────────────────────────────────────────────────────────
    def exited(self, name: str, attempt: int, record: dict[str, Any]) -> None:
        """Called when the Pod's init process reports that the container has ended."""
        facts = self._state.container(name)
        if facts.attempt != attempt or facts.state is ContainerState.TERMINATED:
            return
        directory = attempt_directory(self._runtime.directory, name, attempt)
        end = parse_termination(record, directory)
        if end.error:
            self._events.record(events.START_FAILED, f"Error: {end.error}")
        policy = self._state.spec(name).termination_message_policy
        if policy == "FallbackToLogsOnError" and end.code and not end.message:
            end = replace(end, message=last_lines(directory / "log", lines=80, limit=2048))
        self._terminated(name, end)

    def sandbox_ended(self) -> None:
        """All processes of the Pod ended together with its sandbox. Init containers run again."""
        for container in self._state.pod.containers():
            facts = self._state.container(container.name)
            if facts.state in (ContainerState.STARTING, ContainerState.RUNNING):
                self._killed_with_sandbox(container.name)
            elif container in self._state.pod.spec.init_containers and facts.attempt >= 0:
                self._state.reset(container.name)

    def _killed_with_sandbox(self, name: str) -> None:
        facts, now = self._state.container(name), self._state.now()
        end = Termination(code=137, started=facts.started or now, finished=now)
        write_termination(attempt_directory(self._runtime.directory, name, facts.attempt), end)
        self._terminated(name, end)

    def _terminated(self, name: str, end: Termination) -> None:
        self._state.terminated(name, end)
        pod, crashes = self._state.pod, self._state.container(name).crashes
        if should_restart(pod, self._state.spec(name), end.code) and restart_delay(crashes):
            meta = pod.metadata
            note = (
                f"Back-off restarting failed container {name} in pod"
                f" {meta.name}_{meta.namespace}({meta.uid})"
            )
            self._events.record(events.RESTART_BACK_OFF, note)

    # ── stopping ───────────────────────────────────────────────────────────────────────
    def stop(self, name: str, grace: float, why: str) -> None:
        """Run the preStop hook and send TERM; with no grace period, send KILL."""
        self._state.stop_requested(name, grace)
        note = f"Stopping container {name}"
        if why:
            note = f"Container {name} failed {why}, will be restarted"
        self._events.record(events.KILLING, note)
        self._tasks.spawn(self._stop(self._state.spec(name), grace))

    async def _stop(self, container: Container, grace: float) -> None:
        facts = self._state.container(container.name)
        hook = container.lifecycle.pre_stop
        if hook is not None and grace > 0 and facts.state is ContainerState.RUNNING:
            result = await self._runtime.run_handler(container, facts.attempt, hook, grace)
            if not result.success:
                note = f"PreStopHook failed: {result.message}"
                self._events.record(events.STOP_HOOK_FAILED, note)
        number = signal.SIGTERM if grace > 0 else signal.SIGKILL
        await self._signal(container.name, facts.attempt, number)

    def kill(self, name: str) -> None:
        self._state.kill_requested(name)
        attempt = self._state.container(name).attempt
        self._tasks.spawn(self._signal(name, attempt, signal.SIGKILL))

    async def _signal(self, name: str, attempt: int, number: int) -> None:
        try:
            await self._runtime.signal(name, attempt, number)
        except RUNTIME_ERRORS:
            return  # the container has ended; the Pod's init reports that

    # ── probes ─────────────────────────────────────────────────────────────────────────
    def run_probes(self, snapshot: PodSnapshot) -> None:
        """Start the probes that the Pod's state needs, stop the others."""
        self._prober.follow(snapshot)

    def _probed(self, key: ProbeKey, success: bool) -> None:  # noqa: FBT001
        facts = self._state.container(key.container)
        if facts.attempt != key.attempt or facts.state is not ContainerState.RUNNING:
            return
        if key.kind is ProbeKind.READINESS:
            self._state.set_ready(key.container, ready=success)
        elif success:
            if key.kind is ProbeKind.STARTUP:
                self._state.startup_passed(key.container)
        else:
            spec = self._state.spec(key.container)
            startup = key.kind is ProbeKind.STARTUP
            probe = spec.startup_probe if startup else spec.liveness_probe
            grace = probe.termination_grace_period_seconds if probe else None
            self._state.unhealthy(key.container, f"{key.kind.lower()} probe", grace)

    def _probe_failed(self, key: ProbeKey, result: ProbeResult) -> None:
        self._events.record(events.UNHEALTHY, f"{key.kind} probe failed: {result.message}")
