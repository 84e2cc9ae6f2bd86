"""The status of a Pod from a snapshot, as a kubelet writes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from manta.localplane.kubelet import crash_loop
from manta.localplane.node.gpus.device import GpuHealth
from manta.localplane.node.pod.conditions import api_time, is_ready, pod_conditions
from manta.localplane.node.pod.plan import (
    failed_init,
    has_passed_startup,
    has_succeeded,
    is_over,
    is_terminating,
)
from manta.localplane.node.pod.restarts import restart_at, should_restart
from manta.localplane.node.pod.snapshot import (
    ContainerFacts,
    ContainerState,
    PodSnapshot,
    Termination,
)
from manta.localplane.node.spec.pod_spec import Container

State = dict[str, Any]
CONTAINER_SCHEME = "manta://"


def next_status(snapshot: PodSnapshot) -> dict[str, Any]:
    """The fields of `.status` that belong to the node. Others are left as they are."""
    phase = pod_phase(snapshot)
    status: dict[str, Any] = {
        "phase": phase,
        "observedGeneration": snapshot.pod.metadata.generation or None,
        "hostIP": snapshot.host_address,
        "hostIPs": [{"ip": snapshot.host_address}],
        "startTime": api_time(snapshot.start_time),
        "conditions": [*pod_conditions(snapshot, phase)],
        "containerStatuses": [
            _container_status(snapshot, one) for one in snapshot.pod.spec.containers
        ],
        **_deadline(snapshot, phase),
    }
    if snapshot.pod.spec.init_containers:
        status["initContainerStatuses"] = [
            _container_status(snapshot, one) for one in snapshot.pod.spec.init_containers
        ]
    if snapshot.pod.spec.ephemeral_containers:
        status["ephemeralContainerStatuses"] = [
            _container_status(snapshot, one) for one in snapshot.pod.spec.ephemeral_containers
        ]
    if snapshot.facts.address:
        status |= {"podIP": snapshot.facts.address, "podIPs": [{"ip": snapshot.facts.address}]}
    return {name: value for name, value in status.items() if value is not None}


# ── the Pod ──────────────────────────────────────────────────────────────────────────────
def pod_phase(snapshot: PodSnapshot) -> str:
    if snapshot.pod.status.phase in ("Succeeded", "Failed"):
        return snapshot.pod.status.phase  # a final phase stays
    alive = any(
        snapshot.facts.of(one).state in (ContainerState.STARTING, ContainerState.RUNNING)
        for one in snapshot.pod.containers()
    )
    if snapshot.is_past_deadline and not alive:
        return "Failed"
    if is_over(snapshot) and not alive:
        codes = [_last_code(snapshot.facts.of(one)) for one in snapshot.pod.spec.containers]
        return "Failed" if failed_init(snapshot) or any(codes) else "Succeeded"
    began = [_has_run(snapshot.facts.of(one)) for one in snapshot.pod.spec.containers]
    if is_terminating(snapshot) and any(began) and not alive:
        # Unlike above, a container that has not started counts as failed.
        codes = [_last_code(snapshot.facts.of(one)) for one in snapshot.pod.spec.containers]
        return "Failed" if any(code != 0 for code in codes) else "Succeeded"
    if any(began) and (all(began) or snapshot.pod.status.phase == "Running"):
        return "Running"
    return "Pending"


def _has_run(facts: ContainerFacts) -> bool:
    return (
        facts.state in (ContainerState.RUNNING, ContainerState.TERMINATED)
        or facts.last_termination is not None
    )


def _last_code(facts: ContainerFacts) -> int | None:
    return facts.termination.code if facts.termination else None


def _deadline(snapshot: PodSnapshot, phase: str) -> dict[str, str]:
    """Reason and message of a Pod past its deadline; empty for others."""
    if snapshot.is_past_deadline and phase in ("Failed", "Running", "Pending"):
        message = "Pod was active on the node longer than the specified deadline"
        return {"reason": "DeadlineExceeded", "message": message}
    return {}


# ── containers ───────────────────────────────────────────────────────────────────────────
def _container_status(snapshot: PodSnapshot, container: Container) -> dict[str, Any]:
    facts = _as_shown(snapshot.facts.of(container))
    app = container in snapshot.pod.spec.containers
    sidecar = not app and snapshot.pod.is_sidecar(container)
    status: dict[str, Any] = {
        "name": container.name,
        "image": container.image,
        "imageID": facts.image_id,
        "restartCount": max(facts.attempt, 0),
        "state": _state(snapshot, container, facts),
        "lastState": _last_state(snapshot, container, facts),
        "ready": _shown_ready(snapshot, container, facts, serves=app or sidecar),
        "started": facts.state is ContainerState.RUNNING and has_passed_startup(container, facts),
    }
    if facts.state is ContainerState.RUNNING and (
        container.resources.requests or container.resources.limits
    ):
        status["allocatedResources"] = container.resources.requests
        status["resources"] = {
            "limits": container.resources.limits,
            "requests": container.resources.requests,
        }
    if gpus := snapshot.gpus.get(container.name):
        status["allocatedResourcesStatus"] = _allocated(gpus)
    if facts.attempt >= 0:
        status["containerID"] = container_id(
            snapshot.pod.metadata.uid, container.name, facts.attempt
        )
    return status


def _allocated(gpus: Sequence[GpuHealth]) -> list[dict[str, Any]]:
    """The devices of the container and their health, as a kubelet shows them."""
    return [
        {
            "name": resource,
            "resources": [
                {"resourceID": gpu.id, "health": "Unhealthy" if gpu.error else "Healthy"}
                for gpu in gpus
                if gpu.resource == resource
            ],
        }
        for resource in sorted({gpu.resource for gpu in gpus})
    ]


def _shown_ready(
    snapshot: PodSnapshot, container: Container, facts: ContainerFacts, *, serves: bool
) -> bool:
    """Init containers are ready when they have succeeded, ephemeral ones never."""
    if serves:
        return is_ready(snapshot, container)
    return container in snapshot.pod.spec.init_containers and has_succeeded(facts)


def _as_shown(facts: ContainerFacts) -> ContainerFacts:
    """While a restart is under way, show the end of the previous attempt."""
    if facts.state is ContainerState.STARTING and facts.last_termination is not None:
        return replace(
            facts,
            state=ContainerState.TERMINATED,
            attempt=facts.attempt - 1,
            termination=facts.last_termination,
            last_termination=None,
        )
    return facts


def container_id(uid: str, name: str, attempt: int) -> str:
    return f"{CONTAINER_SCHEME}{uid}/{name}/{attempt}"


def _state(snapshot: PodSnapshot, container: Container, facts: ContainerFacts) -> State:
    match facts.state:
        case ContainerState.RUNNING:
            return {"running": {"startedAt": api_time(facts.started)}}
        case ContainerState.TERMINATED if facts.termination is not None:
            if not _is_waiting_to_restart(snapshot, container, facts):
                return {
                    "terminated": _terminated(snapshot, container, facts.termination, facts.attempt)
                }
            return {"waiting": _crash_loop(snapshot, container, facts)}
        case _:
            return {"waiting": _waiting(snapshot, container, facts)}


def _is_waiting_to_restart(
    snapshot: PodSnapshot, container: Container, facts: ContainerFacts
) -> bool:
    if facts.termination is None or is_terminating(snapshot) or is_over(snapshot):
        return False
    again = should_restart(snapshot.pod, container, facts.termination.code)
    return again and (facts.start.failure is not None or snapshot.now < restart_at(facts))


def _last_state(snapshot: PodSnapshot, container: Container, facts: ContainerFacts) -> State:
    if _is_waiting_to_restart(snapshot, container, facts) and facts.termination is not None:
        return {"terminated": _terminated(snapshot, container, facts.termination, facts.attempt)}
    if facts.last_termination is not None:
        return {
            "terminated": _terminated(
                snapshot, container, facts.last_termination, facts.attempt - 1
            )
        }
    return {}


def _crash_loop(
    snapshot: PodSnapshot, container: Container, facts: ContainerFacts
) -> Mapping[str, str]:
    if facts.start.failure is not None:
        return {"reason": facts.start.failure.reason, "message": facts.start.failure.message}
    message = crash_loop(container.name, snapshot.pod.metadata, facts.crashes)
    return {"reason": "CrashLoopBackOff", "message": message}


def _waiting(
    snapshot: PodSnapshot, container: Container, facts: ContainerFacts
) -> Mapping[str, str]:
    failure = facts.image.failure or facts.start.failure
    if failure is not None:
        return {"reason": failure.reason, "message": failure.message}
    failure = snapshot.facts.volumes.failure or snapshot.facts.sandbox.failure
    if failure is not None:
        # A kubelet shows this in Events only; here the status has it too.
        return {"reason": "ContainerCreating", "message": failure.message}
    inits = snapshot.pod.spec.init_containers
    if inits and (container in snapshot.pod.spec.containers or container is not inits[0]):
        return {"reason": "PodInitializing"}
    return {"reason": "PodInitializing" if inits else "ContainerCreating"}


def _terminated(
    snapshot: PodSnapshot, container: Container, ended: Termination, attempt: int
) -> dict[str, Any]:
    state: dict[str, Any] = {
        "exitCode": ended.code,
        "reason": ended.reason,
        "startedAt": api_time(ended.started),
        "finishedAt": api_time(ended.finished),
        "containerID": container_id(snapshot.pod.metadata.uid, container.name, max(attempt, 0)),
    }
    if message := ended.error or ended.message:
        state["message"] = message
    return state
