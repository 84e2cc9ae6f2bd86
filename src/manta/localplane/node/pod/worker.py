"""Runs one Pod on this node: observe, plan, act, report, and sleep until something changes.

The worker wakes when the Pod's object changes, when its init reports something, when a probe's verdict
changes, when a background task ends, or at the time that the plan names.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, assert_never

from manta.api.resources import PODS
from manta.kube.client import Client
from manta.kube.errors import Conflict, MantaError, NotFound
from manta.localplane.node.pod import events
from manta.localplane.node.pod.container_manager import ContainerManager
from manta.localplane.node.pod.events import PodEvents
from manta.localplane.node.pod.plan import (
    CreateSandbox,
    FinishDeletion,
    KillContainer,
    KillSandbox,
    PodAction,
    PrepareVolumes,
    PullImage,
    StartContainer,
    StopContainer,
    holds_nothing,
    plan_pod,
)
from manta.localplane.node.pod.runtime import RUNTIME_ERRORS, PodRuntime
from manta.localplane.node.pod.snapshot import ContainerState, PodFacts, PodSnapshot, Step
from manta.localplane.node.pod.state import PodState
from manta.localplane.node.pod.status import next_status
from manta.localplane.node.pod.tasks import PodTasks
from manta.localplane.node.spec.pod_spec import NodePod
from manta.localplane.node.storage.volume_files import has_changing_files
from manta.runtime.clock import Clock

log = logging.getLogger(__name__)


class PodWorker:
    def __init__(
        self, pod: NodePod, runtime: PodRuntime, client: Client, clock: Clock, pod_events: PodEvents
    ) -> None:
        self.runtime = runtime
        self._client = client
        self._clock = clock
        self._events = pod_events
        self._state = PodState(pod, self._now)
        self._tasks = PodTasks(pod.metadata.key, self._state.changed.set)
        self._containers = ContainerManager(self._state, runtime, pod_events, clock, self._tasks)
        self.restored = asyncio.Event()
        """Set when the worker has found what an earlier agent left of the Pod."""
        self._reported: dict[str, Any] | None = None
        self._object_gone = False
        self._node_lost = False
        self._finishing = False
        self._done = False

    # ── called by the agent ────────────────────────────────────────────────────────────
    @property
    def pod(self) -> NodePod:
        return self._state.pod

    @property
    def facts(self) -> PodFacts:
        return self._state.facts

    def pod_changed(self, pod: NodePod) -> None:
        before = {one.name: one.resources for one in self.pod.containers()}
        self._state.set_pod(pod)
        self.runtime.set_pod(pod)
        for container in pod.containers():
            running = self._state.container(container.name).state is ContainerState.RUNNING
            if running and container.resources != before.get(container.name):
                self.runtime.resize(container)

    def pod_deleted(self) -> None:
        """The API server removed the object without waiting for the node: end the Pod at once."""
        self._object_gone = True
        self._state.changed.set()

    def lose_node(self) -> None:
        """End all processes at once, and report nothing."""
        self._node_lost = True
        self._state.changed.set()

    def gpus_changed(self) -> None:
        """A GPU of the machine has fallen off or come back: tell it if it is one of this Pod."""
        for container, gpus in self.runtime.gpus.items():
            for gpu in gpus:
                if gpu.error:
                    note = f"{gpu.resource} {gpu.id} of container {container}: {gpu.error}"
                    self._events.record(events.GPU_UNAVAILABLE, note)
        self._state.changed.set()

    async def refresh_volumes(self) -> None:
        """Update files made from API objects. An error is logged; the next refresh tries again."""
        if self.facts.volumes.step is not Step.DONE or not has_changing_files(self.pod):
            return
        try:
            await self.runtime.prepare_volumes(self._now())
        except (*RUNTIME_ERRORS, MantaError) as error:
            log.info("volumes of Pod %s not refreshed: %s", self.pod.metadata.key, error)

    async def run(self) -> None:
        """Until nothing of the Pod is left on this node. If cancelled, the Pod keeps running."""
        try:
            await self._restore()
            self.restored.set()
            while not self._done:
                self._state.changed.clear()
                await self._reconcile()
        except asyncio.CancelledError:
            self.runtime.detach()
            raise
        finally:
            self._stop_tasks()

    def sandbox_event(self, event: dict[str, Any]) -> None:
        """Handle what the Pod's init reports."""
        match event["event"]:
            case "started":
                self._containers.started(*_parse_id(event["id"]), float(event["started"]))
            case "exited":
                self._containers.exited(*_parse_id(event["id"]), event)
            case "sandbox-ended":
                self._sandbox_ended()
            case _:
                return

    # ── the loop ───────────────────────────────────────────────────────────────────────
    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _snapshot(self) -> PodSnapshot:
        return PodSnapshot(
            self.pod,
            self.facts,
            self._now(),
            self.runtime.host_address,
            self._state.start_time,
            self.runtime.dns_error,
            self.runtime.gpus,
        )

    async def _restore(self) -> None:
        adopted = await self.runtime.adopt()
        if adopted is not None and adopted.running:
            self._state.restore_running(adopted.address, adopted.containers)
        else:
            self._state.restore_ended(adopted.containers if adopted else None)
        self._containers.find_images()

    async def _reconcile(self) -> None:
        if self._node_lost:
            self._stop_tasks()
            await self.runtime.kill_sandbox()
            self.runtime.release_address()
            self.runtime.release_gpus()
            self._done = True
            return
        if self._object_gone:
            self._stop_tasks()
            await self.runtime.remove()
            self._done = True
            return
        before = self._snapshot()
        if holds_nothing(before):
            self.runtime.release_gpus()
        plan = plan_pod(before)
        for action in plan.actions:
            self._perform(action)
        if self._done:
            return
        snapshot = self._snapshot()
        self._containers.run_probes(snapshot)
        if await self._report(snapshot):
            await self._sleep_until(plan.wake_at)

    async def _sleep_until(self, time: float | None) -> None:
        if time is None:
            await self._state.changed.wait()
            return
        try:
            async with asyncio.timeout(max(time - self._now(), 0.0)):
                await self._state.changed.wait()
        except TimeoutError:
            return

    async def _report(self, snapshot: PodSnapshot) -> bool:
        """Write the status if it differs. False: reconcile again at once."""
        status = next_status(snapshot)
        if status == self._reported:
            return True
        meta = self.pod.metadata
        body = {"metadata": {"uid": meta.uid}, "status": status}
        try:
            await self._client.patch(PODS, meta.key, body, subresource="status")
        except (NotFound, Conflict):
            self._object_gone = True
            return False
        except MantaError as error:
            log.warning("status of Pod %s not written: %s", meta.key, error)
            await asyncio.sleep(1)
            return False
        self._reported = status
        return True

    # ── actions ────────────────────────────────────────────────────────────────────────
    def _perform(self, action: PodAction) -> None:
        match action:
            case PrepareVolumes():
                self._state.volumes_requested()
                self._tasks.spawn(self._prepare_volumes())
            case CreateSandbox():
                self._state.sandbox_requested()
                self._tasks.spawn(self._create_sandbox())
            case PullImage(container):
                self._containers.pull(container)
            case StartContainer(container, attempt):
                self._containers.start(container, attempt)
            case StopContainer(container, grace, why):
                self._containers.stop(container, grace, why)
            case KillContainer(container):
                self._containers.kill(container)
            case KillSandbox():
                self._state.sandbox_removal_requested()
                self._tasks.spawn(self._kill_sandbox())
            case FinishDeletion():
                if not self._finishing:
                    self._finishing = True
                    self._tasks.spawn(self._finish_deletion())
            case _:
                assert_never(action)

    def _stop_tasks(self) -> None:
        self._containers.close()
        self._tasks.cancel()

    async def _prepare_volumes(self) -> None:
        try:
            await self.runtime.prepare_volumes(self._now())
        except (*RUNTIME_ERRORS, MantaError) as error:
            message = f"MountVolume.SetUp failed: {error}"
            self._events.record(events.MOUNT_FAILED, message)
            self._state.volumes_failed(message)
        else:
            self._state.volumes_ready()

    async def _create_sandbox(self) -> None:
        try:
            address = await self.runtime.create_sandbox()
        except RUNTIME_ERRORS as error:
            message = f"Failed to create pod sandbox: {error}"
            self._events.record(events.SANDBOX_FAILED, message)
            self._state.sandbox_failed(message)
        else:
            self._state.sandbox_ready(address)

    def _sandbox_ended(self) -> None:
        self.runtime.forget_sandbox()
        self.runtime.release_address()
        self._containers.sandbox_ended()
        if self.facts.sandbox.step is Step.DONE:
            note = "Pod sandbox changed, it will be killed and re-created."
            self._events.record(events.SANDBOX_CHANGED, note)
            self._state.sandbox_removed()

    async def _kill_sandbox(self) -> None:
        await self.runtime.kill_sandbox()
        self.runtime.release_address()
        self._state.sandbox_removed()

    async def _finish_deletion(self) -> None:
        """Clean up the machine first: a client that sees the object gone must find nothing left."""
        await self.runtime.remove()
        meta = self.pod.metadata
        try:
            await self._client.delete(PODS, meta.key, uid=meta.uid, grace_seconds=0)
        except Conflict:
            log.info("Pod %s was replaced by another Pod with its name", meta.key)
        except MantaError as error:
            log.warning("Pod %s could not be removed: %s", meta.key, error)
            await asyncio.sleep(1)
            self._finishing = False
            return
        self._done = True


def _parse_id(container_id: str) -> tuple[str, int]:
    name, _, attempt = container_id.rpartition("/")
    return name, int(attempt)
