"""What this node knows of one Pod.

All facts change here. Two objects write: the `PodWorker` what concerns the whole Pod (its API object,
volumes, sandbox), the `ContainerManager` what concerns its containers. Every change wakes the worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from manta.api.times import parse_optional_time
from manta.localplane.kubelet import PULL_DELAYS, crashes_after
from manta.localplane.node.pod.attempts import restore_from_status
from manta.localplane.node.pod.plan import has_succeeded
from manta.localplane.node.pod.snapshot import (
    ContainerFacts,
    ContainerState,
    Failure,
    PodFacts,
    Progress,
    Step,
    Stopping,
    Termination,
)
from manta.localplane.node.spec.pod_spec import Container, NodePod

RETRY_DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds before each further attempt at volumes, the sandbox or the start of a container."""


class PodState:
    def __init__(self, pod: NodePod, now: Callable[[], float]) -> None:
        self.pod = pod
        self.facts = PodFacts()
        self.now = now
        started = parse_optional_time(pod.status.start_time)
        self.start_time = started.timestamp() if started else now()
        self.changed = asyncio.Event()
        self._failures: dict[str, int] = {}
        self._note_deletion()

    def container(self, name: str) -> ContainerFacts:
        return self.facts.containers.get(name, ContainerFacts())

    def spec(self, name: str) -> Container:
        return next(one for one in self.pod.containers() if one.name == name)

    # ── the whole Pod: written by PodWorker ────────────────────────────────────────────
    def set_pod(self, pod: NodePod) -> None:
        self.pod = pod
        self._note_deletion()
        self.changed.set()

    def _note_deletion(self) -> None:
        if self.pod.metadata.deletion_timestamp and self.facts.terminating_since is None:
            self.facts = replace(self.facts, terminating_since=self.now())

    def restore_running(self, address: str, containers: Mapping[str, ContainerFacts]) -> None:
        """An earlier agent left the sandbox running."""
        self._set_pod_facts(
            sandbox=Progress(Step.DONE), address=address, containers=dict(containers)
        )
        self._restore_probe_results()

    def restore_ended(self, containers: Mapping[str, ContainerFacts] | None) -> None:
        """The sandbox is gone. `containers` are from the records on disk, or None if those are gone
        too: then the Pod's status has what is known. Init containers run again."""
        status = self.pod.status
        statuses = (*status.init_container_statuses, *status.container_statuses)
        known = containers
        if known is None:
            known = {one["name"]: restore_from_status(one) for one in statuses}
        restored = {one.name: known[one.name] for one in self.pod.containers() if one.name in known}
        for one in self.pod.spec.init_containers:
            if one.name in restored and has_succeeded(restored[one.name]):
                restored[one.name] = _not_started(restored[one.name])
        self._set_pod_facts(containers=restored)

    def _restore_probe_results(self) -> None:
        """A container that was ready before the agent's restart stays ready until a probe fails."""
        status = self.pod.status
        for one in (*status.init_container_statuses, *status.container_statuses):
            if self.container(one["name"]).state is ContainerState.RUNNING:
                self._set(
                    one["name"],
                    startup_passed=bool(one.get("started")),
                    ready=bool(one.get("ready")),
                )

    def volumes_requested(self) -> None:
        self._set_pod_facts(volumes=replace(self.facts.volumes, step=Step.RUNNING))

    def volumes_ready(self) -> None:
        self._set_pod_facts(volumes=Progress(Step.DONE))

    def volumes_failed(self, message: str) -> None:
        self._set_pod_facts(volumes=self._failed("volumes", "FailedMount", message))

    def sandbox_requested(self) -> None:
        self._set_pod_facts(sandbox=replace(self.facts.sandbox, step=Step.RUNNING))

    def sandbox_ready(self, address: str) -> None:
        self._set_pod_facts(sandbox=Progress(Step.DONE), address=address)

    def sandbox_failed(self, message: str) -> None:
        self._set_pod_facts(sandbox=self._failed("sandbox", "FailedCreatePodSandBox", message))

    def sandbox_removal_requested(self) -> None:
        self._set_pod_facts(sandbox=Progress(Step.RUNNING))

    def sandbox_removed(self) -> None:
        self._set_pod_facts(sandbox=Progress())

    # ── containers: written by ContainerManager ────────────────────────────────────────
    def pull_requested(self, name: str) -> None:
        self._set(name, image=replace(self.container(name).image, step=Step.RUNNING))

    def pulled(self, name: str, image_id: str) -> None:
        self._set(name, image=Progress(Step.DONE), image_id=image_id)

    def pull_failed(self, name: str, reason: str, message: str) -> Progress:
        failed = self._failed(f"pull {name}", reason, message, PULL_DELAYS)
        self._set(name, image=failed)
        return failed

    def pull_backs_off(self, name: str, message: str) -> None:
        image = self.container(name).image
        if image.failure is not None:
            failure = replace(image.failure, reason="ImagePullBackOff", message=message)
            self._set(name, image=replace(image, failure=failure))

    def start_requested(self, name: str, attempt: int) -> None:
        facts = self.container(name)
        self._set(
            name,
            state=ContainerState.STARTING,
            attempt=attempt,
            last_termination=facts.termination or facts.last_termination,
            termination=None,
            stopping=None,
            startup_passed=False,
            ready=False,
            unhealthy="",
            unhealthy_grace=None,
            start=replace(facts.start, step=Step.RUNNING),
        )

    def start_failed(self, name: str, message: str) -> None:
        """Back to the state before `start_requested`; the start is tried again later."""
        facts = self.container(name)
        before = facts.last_termination
        self._set(
            name,
            start=self._failed(f"start {name}", "CreateContainerConfigError", message),
            state=ContainerState.TERMINATED if before else ContainerState.NOT_STARTED,
            attempt=facts.attempt - 1,
            termination=before,
            last_termination=None,
        )

    def started(self, name: str, started: float) -> None:
        self._failures.pop(f"start {name}", None)
        self._set(name, state=ContainerState.RUNNING, started=started, start=Progress())

    def terminated(self, name: str, termination: Termination) -> None:
        crashes = crashes_after(
            self.container(name).crashes, termination.started, termination.finished
        )
        self._set(
            name,
            state=ContainerState.TERMINATED,
            termination=termination,
            stopping=None,
            ready=False,
            startup_passed=False,
            start=Progress(),
            crashes=crashes,
        )

    def reset(self, name: str) -> None:
        """The container must run again from the beginning, in a new sandbox."""
        self._set_facts(name, _not_started(self.container(name)))

    def stop_requested(self, name: str, grace: float) -> None:
        self._set(name, stopping=Stopping(self.now(), self.now() + grace))

    def kill_requested(self, name: str) -> None:
        stopping = self.container(name).stopping
        if stopping is not None:
            self._set(name, stopping=replace(stopping, killed=True))

    def set_ready(self, name: str, *, ready: bool) -> None:
        if self.container(name).ready != ready:
            self._set(name, ready=ready)

    def startup_passed(self, name: str) -> None:
        self._set(name, startup_passed=True)

    def unhealthy(self, name: str, why: str, grace: int | None = None) -> None:
        """The container must be restarted, with `grace` seconds if the failed probe says so."""
        if not self.container(name).unhealthy:
            self._set(name, unhealthy=why, unhealthy_grace=grace)

    # ── writing ────────────────────────────────────────────────────────────────────────
    def _set(self, name: str, **changes: Any) -> None:
        self._set_facts(name, replace(self.container(name), **changes))

    def _set_facts(self, name: str, facts: ContainerFacts) -> None:
        self._set_pod_facts(containers={**self.facts.containers, name: facts})

    def _set_pod_facts(self, **changes: Any) -> None:
        self.facts = replace(self.facts, **changes)
        self.changed.set()

    def _failed(
        self, what: str, reason: str, message: str, delays: tuple[float, ...] = RETRY_DELAYS
    ) -> Progress:
        """The progress of something that failed, with the time of the next attempt."""
        failures = self._failures.get(what, 0)
        self._failures[what] = failures + 1
        retry_at = self.now() + delays[min(failures, len(delays) - 1)]
        return Progress(Step.FAILED, Failure(reason, message, retry_at))


def _not_started(facts: ContainerFacts) -> ContainerFacts:
    state, last = ContainerState.NOT_STARTED, facts.termination
    return replace(facts, state=state, termination=None, last_termination=last)
