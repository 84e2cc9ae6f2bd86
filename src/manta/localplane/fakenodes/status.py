"""The status of a fake Pod in each stage, spelled as a kubelet does. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manta.localplane.builtin.views import Container, Pod, as_json
from manta.localplane.fakenodes.life import Life, Move, Stage
from manta.localplane.fakenodes.script import Ending

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
_WAITING = {
    Stage.PULL_ERROR: (
        "ErrImagePull",
        'rpc error: code = NotFound desc = failed to pull image "{image}": not found',
    ),
    Stage.PULL_BACKOFF: ("ImagePullBackOff", 'Back-off pulling image "{image}"'),
    Stage.INIT_CRASHED: ("PodInitializing", ""),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the Pod is, and when it is written."""

    host_ip: str
    pod_ip: str
    now: str


def next_status(pod: Pod, life: Life, move: Move, place: Place) -> dict[str, Any]:
    """The fields of the status that change with this move."""
    containers = [_container(pod, one, life, move, place) for one in pod.spec.containers]
    ready = all(one["ready"] for one in containers)
    status: dict[str, Any] = {
        "phase": _PHASES.get(move.stage, "Running"),
        "conditions": _conditions(pod, move.stage, place.now, ready=ready),
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
        "startTime": pod.status.start_time or place.now,
        "containerStatuses": containers,
    }
    if move.stage not in (Stage.PULL_ERROR, Stage.PULL_BACKOFF):
        status |= {"podIP": place.pod_ip, "podIPs": [{"ip": place.pod_ip}]}
    if pod.spec.init_containers:
        status["initContainerStatuses"] = _inits(pod, move, place)
    if move.stage is Stage.EVICTED:
        status |= {
            "reason": "Evicted",
            "message": "The node was low on resource: memory.",
            "containerStatuses": None,
        }
    return status


# ── containers ───────────────────────────────────────────────────────────────────────────
def _container(
    pod: Pod, container: Container, life: Life, move: Move, place: Place
) -> dict[str, Any]:
    stage, restarts = move.stage, move.starts
    state: dict[str, Any]
    last: dict[str, Any] = {}
    if stage in _WAITING or (stage is Stage.FAILED and _init_failed(pod, life)):
        reason, message = _WAITING.get(stage, ("PodInitializing", ""))
        state = {"waiting": _words(reason, message.format(image=container.image))}
    elif _has_ended(container, move) and move.ended:
        state = {"terminated": _terminated(pod, move.ended, place)}
        if stage is Stage.CRASHED:
            last, state = state, _crash_loop(container, restarts)
    else:
        state = {"running": {"startedAt": place.now}}
        if life.ended and not life.ended.container:
            last = {"terminated": _terminated(pod, life.ended, place)}
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


def _has_ended(container: Container, move: Move) -> bool:
    if move.stage not in (
        Stage.SUCCEEDED,
        Stage.FAILED,
        Stage.CRASHED,
        Stage.PARTLY_ENDED,
        Stage.STOPPED,
    ):
        return False
    return move.ended is not None and move.ended.container in ("", container.name)


def _init_failed(pod: Pod, life: Life) -> bool:
    return life.stage is Stage.BOUND and bool(pod.spec.init_containers)


def _crash_loop(container: Container, restarts: int) -> dict[str, Any]:
    if restarts == 0:
        return {"waiting": _words("ContainerCreating", "")}
    message = f"back-off restarting failed container={container.name}"
    return {"waiting": _words("CrashLoopBackOff", message)}


def _terminated(pod: Pod, ended: Ending, place: Place) -> dict[str, Any]:
    reason = ended.reason or ("Error" if ended.code else "Completed")
    return {
        "exitCode": ended.code,
        "reason": reason,
        "startedAt": pod.status.start_time or place.now,
        "finishedAt": place.now,
    }


def _words(reason: str, message: str) -> dict[str, str]:
    return {"reason": reason, **({"message": message} if message else {})}


def _inits(pod: Pod, move: Move, place: Place) -> list[dict[str, Any]]:
    crashed = move.stage is Stage.INIT_CRASHED or (
        move.stage is Stage.FAILED and _waits_for_init(pod)
    )
    pulling = move.stage in (Stage.PULL_ERROR, Stage.PULL_BACKOFF)
    listed = []
    for index, one in enumerate(pod.spec.init_containers or ()):
        first_crash = crashed and index == 0 and move.ended is not None
        if first_crash and move.ended is not None:
            state = {"terminated": _terminated(pod, move.ended, place)}
        elif crashed or pulling:
            state = {"waiting": _words("PodInitializing", "")}
        elif one.restart_policy == "Always":
            state = {"running": {"startedAt": place.now}}
        else:
            state = {"terminated": _terminated(pod, Ending(), place)}
        last: dict[str, Any] = {}
        if first_crash and move.stage is Stage.INIT_CRASHED:
            last, state = state, _crash_loop(one, move.starts + 1)
        listed.append(
            {
                "name": one.name,
                "image": one.image,
                "imageID": f"fake://{one.image}",
                "ready": not crashed and not pulling,
                "restartCount": move.starts if first_crash else 0,
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
    why = ""
    if not ready:
        why = {Stage.SUCCEEDED: "PodCompleted", Stage.FAILED: "PodFailed"}.get(
            stage, "ContainersNotReady"
        )
    said = {
        "PodReadyToStartContainers": (not over, ""),
        "Initialized": (begun, "" if begun else "ContainersNotInitialized"),
        "Ready": (ready, why),
        "ContainersReady": (ready, why),
        "PodScheduled": (True, ""),
    }
    others = [one for one in pod.status.conditions or () if one.type not in _OWN]
    return [
        *(_condition(pod, name, now, *said[name]) for name in _OWN),
        *as_json(others),
    ]


def _condition(pod: Pod, type_: str, now: str, value: bool, reason: str) -> dict[str, Any]:  # noqa: FBT001
    status = "True" if value else "False"
    before = pod.condition(type_)
    same = before is not None and before.status == status and before.last_transition_time
    moved = before.last_transition_time if before is not None and same else now
    condition = {"type": type_, "status": status, "lastTransitionTime": moved}
    return condition | ({"reason": reason} if reason else {})
