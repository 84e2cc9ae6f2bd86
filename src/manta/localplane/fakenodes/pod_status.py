"""The status of a fake Pod in each stage, as a kubelet writes it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manta.localplane.builtin.views import Container, Pod, as_json
from manta.localplane.fakenodes.pod_lifecycle import PodState, Stage, Transition
from manta.localplane.fakenodes.script import Exit
from manta.localplane.kubelet import crash_loop, pull_back_off, pull_failed, termination_reason

_OWN = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
_PHASES = {
    Stage.SUCCEEDED: "Succeeded",
    Stage.FAILED: "Failed",
    Stage.EVICTED: "Failed",
    Stage.BOUND: "Pending",
    Stage.PULL_ERROR: "Pending",
    Stage.PULL_BACKOFF: "Pending",
    Stage.INIT_CRASHED: "Pending",
}


@dataclass(frozen=True, slots=True)
class Placement:
    """The addresses of the Pod and its node, and the time of the status."""

    host_ip: str
    pod_ip: str
    now: str


def next_status(
    pod: Pod, previous: PodState, transition: Transition, placement: Placement
) -> dict[str, Any]:
    """The fields of the status that change with this transition."""
    containers = [
        _container(pod, one, previous, transition, placement) for one in pod.spec.containers
    ]
    ready = all(one["ready"] for one in containers)
    status: dict[str, Any] = {
        "phase": _PHASES.get(transition.stage, "Running"),
        "conditions": _conditions(pod, transition.stage, placement.now, ready=ready),
        "hostIP": placement.host_ip,
        "hostIPs": [{"ip": placement.host_ip}],
        "startTime": pod.status.start_time or placement.now,
        "containerStatuses": containers,
    }
    if transition.stage not in (Stage.PULL_ERROR, Stage.PULL_BACKOFF, Stage.EVICTED):
        # An evicted Pod keeps the address that it has; one that never ran gets none.
        status |= {"podIP": placement.pod_ip, "podIPs": [{"ip": placement.pod_ip}]}
    if pod.spec.init_containers:
        status["initContainerStatuses"] = _inits(pod, transition, placement)
    if transition.stage is Stage.EVICTED:
        status |= {
            "reason": "Evicted",
            "message": "The node was low on resource: memory.",
            "containerStatuses": None,
        }
    return status


# ── containers ───────────────────────────────────────────────────────────────────────────
def _container(
    pod: Pod, container: Container, previous: PodState, transition: Transition, placement: Placement
) -> dict[str, Any]:
    stage, restarts = transition.stage, transition.restarts
    state: dict[str, Any]
    last: dict[str, Any] = {}
    if waiting := _waiting(pod, container, previous, stage):
        state = {"waiting": waiting}
    elif _has_ended(container, transition) and transition.ended:
        state = {"terminated": _terminated(pod, transition.ended, placement)}
        if stage is Stage.CRASHED:
            last, state = state, _crash_loop(pod, container, restarts)
    else:
        state = {"running": {"startedAt": placement.now}}
        if previous.ended and not previous.ended.container:
            last = {"terminated": _terminated(pod, previous.ended, placement)}
    running = "running" in state
    given = container.resources if running else None
    resources: dict[str, Any] = as_json(given) if given else {}
    return {
        **({"resources": resources} if resources else {}),
        **({"allocatedResources": resources["requests"]} if resources.get("requests") else {}),
        "name": container.name,
        "image": container.image,
        "imageID": f"fake://{container.image}" if running else "",
        "containerID": f"fake://{pod.metadata.uid}/{container.name}/{restarts}",
        "ready": running and stage in (Stage.READY, Stage.PARTLY_ENDED),
        "started": running,
        "restartCount": restarts,
        "state": state,
        "lastState": last,
    }


def _has_ended(container: Container, transition: Transition) -> bool:
    if transition.stage not in (
        Stage.SUCCEEDED,
        Stage.FAILED,
        Stage.CRASHED,
        Stage.PARTLY_ENDED,
        Stage.STOPPED,
    ):
        return False
    return transition.ended is not None and transition.ended.container in ("", container.name)


def _init_failed(pod: Pod, previous: PodState) -> bool:
    return previous.stage is Stage.BOUND and bool(pod.spec.init_containers)


def _waiting(
    pod: Pod, container: Container, previous: PodState, stage: Stage
) -> dict[str, str] | None:
    if stage is Stage.PULL_ERROR:
        return _reason("ErrImagePull", pull_failed(container.image, "not found"))
    if stage is Stage.PULL_BACKOFF:
        return _reason("ImagePullBackOff", pull_back_off(container.image))
    if stage is Stage.INIT_CRASHED or (stage is Stage.FAILED and _init_failed(pod, previous)):
        return _reason("PodInitializing")
    return None


def _crash_loop(pod: Pod, container: Container, restarts: int) -> dict[str, Any]:
    if restarts == 0:
        return {"waiting": _reason("ContainerCreating")}
    message = crash_loop(container.name, pod.metadata, restarts + 1)
    return {"waiting": _reason("CrashLoopBackOff", message)}


def _terminated(pod: Pod, ended: Exit, placement: Placement) -> dict[str, Any]:
    reason = ended.reason or termination_reason(ended.code)
    return {
        "exitCode": ended.code,
        "reason": reason,
        "startedAt": pod.status.start_time or placement.now,
        "finishedAt": placement.now,
    }


def _reason(reason: str, message: str = "") -> dict[str, str]:
    return {"reason": reason, **({"message": message} if message else {})}


def _inits(pod: Pod, transition: Transition, placement: Placement) -> list[dict[str, Any]]:
    crashed = transition.stage is Stage.INIT_CRASHED or (
        transition.stage is Stage.FAILED and _waits_for_init(pod)
    )
    pulling = transition.stage in (Stage.PULL_ERROR, Stage.PULL_BACKOFF)
    listed = []
    for index, one in enumerate(pod.spec.init_containers or ()):
        first_crash = crashed and index == 0 and transition.ended is not None
        if first_crash and transition.ended is not None:
            state = {"terminated": _terminated(pod, transition.ended, placement)}
        elif crashed or pulling:
            state = {"waiting": _reason("PodInitializing")}
        elif one.restart_policy == "Always":
            state = {"running": {"startedAt": placement.now}}
        else:
            state = {"terminated": _terminated(pod, Exit(), placement)}
        last: dict[str, Any] = {}
        if first_crash and transition.stage is Stage.INIT_CRASHED:
            last, state = state, _crash_loop(pod, one, transition.restarts + 1)
        listed.append(
            {
                "name": one.name,
                "image": one.image,
                "imageID": f"fake://{one.image}",
                "ready": not crashed and not pulling,
                "restartCount": transition.restarts if first_crash else 0,
                "state": state,
                "lastState": last,
            }
        )
    return listed


def _waits_for_init(pod: Pod) -> bool:
    return pod.status.phase == "Pending"


# ── conditions ───────────────────────────────────────────────────────────────────────────
def _conditions(pod: Pod, stage: Stage, now: str, *, ready: bool) -> list[dict[str, Any]]:
    begun = stage not in (Stage.PULL_ERROR, Stage.PULL_BACKOFF, Stage.INIT_CRASHED)
    over = stage in (Stage.SUCCEEDED, Stage.FAILED, Stage.EVICTED, Stage.STOPPED)
    reason = ""
    if not ready:
        reason = {Stage.SUCCEEDED: "PodCompleted", Stage.FAILED: "PodFailed"}.get(
            stage, "ContainersNotReady"
        )
    conditions = {
        "PodReadyToStartContainers": (not over, ""),
        "Initialized": (begun, "" if begun else "ContainersNotInitialized"),
        "Ready": (ready, reason),
        "ContainersReady": (ready, reason),
        "PodScheduled": (True, ""),
    }
    others = [one for one in pod.status.conditions or () if one.type not in _OWN]
    return [*(_condition(pod, name, now, *conditions[name]) for name in _OWN), *as_json(others)]


def _condition(pod: Pod, type_: str, now: str, value: bool, reason: str) -> dict[str, Any]:  # noqa: FBT001
    status = "True" if value else "False"
    before = pod.condition(type_)
    same = before is not None and before.status == status and before.last_transition_time
    moved = before.last_transition_time if before is not None and same else now
    condition = {"type": type_, "status": status, "lastTransitionTime": moved}
    return condition | ({"reason": reason} if reason else {})
