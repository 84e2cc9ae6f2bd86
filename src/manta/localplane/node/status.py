"""A Pod's status from the facts, in the words of a kubelet. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from manta.api.times import format_time
from manta.localplane.node.plan import (
    failed_init,
    has_started_up,
    has_succeeded,
    is_ending,
    is_over,
    is_through,
)
from manta.localplane.node.podspec import Container, PodCondition
from manta.localplane.node.restarts import delay_before_restart, restart_at, runs_again
from manta.localplane.node.snapshot import ContainerFacts, Ended, Life, PodSnapshot, Step

State = dict[str, Any]
CONTAINER_SCHEME = "manta://"
DNS_UNAVAILABLE = "DnsUnavailable"
"""A condition of our own: the Pod runs, but finds no names."""


def next_status(seen: PodSnapshot) -> dict[str, Any]:
    """The fields of `.status` that belong to the node. Others are left as they are."""
    phase = pod_phase(seen)
    status: dict[str, Any] = {
        "phase": phase,
        "observedGeneration": seen.pod.metadata.generation or None,
        "hostIP": seen.host_address,
        "hostIPs": [{"ip": seen.host_address}],
        "startTime": _time(seen.accepted),
        "conditions": [*_conditions(seen, phase)],
        "containerStatuses": [_container_status(seen, one) for one in seen.pod.spec.containers],
        **_why(seen, phase),
    }
    if seen.pod.spec.init_containers:
        status["initContainerStatuses"] = [
            _container_status(seen, one) for one in seen.pod.spec.init_containers
        ]
    if seen.pod.spec.ephemeral_containers:
        status["ephemeralContainerStatuses"] = [
            _container_status(seen, one) for one in seen.pod.spec.ephemeral_containers
        ]
    if seen.facts.address:
        status |= {"podIP": seen.facts.address, "podIPs": [{"ip": seen.facts.address}]}
    return {name: value for name, value in status.items() if value is not None}


# ── the Pod ──────────────────────────────────────────────────────────────────────────────
def pod_phase(seen: PodSnapshot) -> str:
    if seen.pod.status.phase in ("Succeeded", "Failed"):
        return seen.pod.status.phase  # a phase that is final stays
    alive = any(
        seen.facts.of(one).life in (Life.STARTING, Life.RUNNING) for one in seen.pod.containers()
    )
    if seen.is_past_deadline and not alive:
        return "Failed"
    if is_over(seen) and not alive:
        codes = [_last_code(seen.facts.of(one)) for one in seen.pod.spec.containers]
        return "Failed" if failed_init(seen) or any(codes) else "Succeeded"
    began = [_has_run(seen.facts.of(one)) for one in seen.pod.spec.containers]
    if is_ending(seen) and any(began) and not alive:
        codes = [_last_code(seen.facts.of(one)) for one in seen.pod.spec.containers]
        return "Failed" if any(code != 0 for code in codes) else "Succeeded"
    if any(began) and (all(began) or seen.pod.status.phase == "Running"):
        return "Running"
    return "Pending"


def _has_run(facts: ContainerFacts) -> bool:
    return facts.life in (Life.RUNNING, Life.ENDED) or facts.last is not None


def _last_code(facts: ContainerFacts) -> int | None:
    return facts.ended.code if facts.ended else None


def _why(seen: PodSnapshot, phase: str) -> dict[str, str]:
    if seen.is_past_deadline and phase in ("Failed", "Running", "Pending"):
        message = "Pod was active on the node longer than the specified deadline"
        return {"reason": "DeadlineExceeded", "message": message}
    return {}


# ── conditions ───────────────────────────────────────────────────────────────────────────
def _conditions(seen: PodSnapshot, phase: str) -> Iterator[dict[str, Any]]:
    sandbox = seen.facts.sandbox.step is Step.DONE
    yield _condition(seen, "PodReadyToStartContainers", holds=sandbox)
    yield _initialized(seen, phase)
    unready = [one.name for one in _serving(seen) if not is_ready(seen, one)]
    reason, message = _unready_words(phase, unready)
    gated, words = (reason, message) if reason else _unmet_gate(seen)
    yield _condition(seen, "Ready", gated, words, holds=not gated)
    yield _condition(seen, "ContainersReady", reason, message, holds=not reason)
    if seen.dns_trouble:
        yield _condition(
            seen, DNS_UNAVAILABLE, "NameServerNotStarted", seen.dns_trouble, holds=True
        )
    known = {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"}
    known.add(DNS_UNAVAILABLE)
    for kept in seen.pod.status.conditions:
        if kept.type not in known:
            yield condition_fields(kept)


def _serving(seen: PodSnapshot) -> list[Container]:
    sidecars = [one for one in seen.pod.spec.init_containers if seen.pod.is_sidecar(one)]
    return [*sidecars, *seen.pod.spec.containers]


def is_ready(seen: PodSnapshot, container: Container) -> bool:
    facts = seen.facts.of(container)
    if facts.life is not Life.RUNNING or not has_started_up(container, facts):
        return False
    return container.readiness_probe is None or facts.ready


def _unready_words(phase: str, unready: Sequence[str]) -> tuple[str, str]:
    if phase == "Succeeded":
        return "PodCompleted", ""
    if phase == "Failed":
        return "PodFailed", ""
    if unready:
        return "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    return "", ""


def _unmet_gate(seen: PodSnapshot) -> tuple[str, str]:
    met = {one.type for one in seen.pod.status.conditions if one.status == "True"}
    for gate in seen.pod.spec.readiness_gates:
        if gate.condition_type not in met:
            words = f'corresponding condition of pod readiness gate "{gate.condition_type}"'
            return "ReadinessGatesNotReady", f"{words} does not exist or is not True."
    return "", ""


def _initialized(seen: PodSnapshot, phase: str) -> dict[str, Any]:
    waiting = [one.name for one in seen.pod.spec.init_containers if not is_through(seen, one)]
    if phase == "Succeeded" or not waiting:
        reason = "PodCompleted" if phase == "Succeeded" and seen.pod.spec.init_containers else ""
        return _condition(seen, "Initialized", reason, holds=True)
    message = f"containers with incomplete status: [{' '.join(waiting)}]"
    return _condition(seen, "Initialized", "ContainersNotInitialized", message, holds=False)


def _condition(
    seen: PodSnapshot, kind: str, reason: str = "", message: str = "", *, holds: bool
) -> dict[str, Any]:
    status = "True" if holds else "False"
    before = next((one for one in seen.pod.status.conditions if one.type == kind), None)
    since = before.last_transition_time if before and before.status == status else None
    made: dict[str, Any] = {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": since or _time(seen.now),
    }
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    return made


def condition_fields(condition: PodCondition) -> dict[str, Any]:
    """A condition as it was, for whoever writes the list anew."""
    fields = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
    return {
        **{name: value for name, value in fields.items() if value},
        "lastProbeTime": condition.last_probe_time,
    }


# ── containers ───────────────────────────────────────────────────────────────────────────
def _container_status(seen: PodSnapshot, container: Container) -> dict[str, Any]:
    facts = _as_shown(seen.facts.of(container))
    app = container in seen.pod.spec.containers
    sidecar = not app and seen.pod.is_sidecar(container)
    status: dict[str, Any] = {
        "name": container.name,
        "image": container.image,
        "imageID": facts.image_id,
        "restartCount": max(facts.attempt, 0),
        "state": _state(seen, container, facts),
        "lastState": _last_state(seen, container, facts),
        "ready": _shown_ready(seen, container, facts, serves=app or sidecar),
        "started": facts.life is Life.RUNNING and has_started_up(container, facts),
    }
    if facts.life is Life.RUNNING and (container.resources.requests or container.resources.limits):
        status["allocatedResources"] = container.resources.requests
        status["resources"] = {
            "limits": container.resources.limits,
            "requests": container.resources.requests,
        }
    if facts.attempt >= 0:
        status["containerID"] = container_id(seen.pod.metadata.uid, container.name, facts.attempt)
    return status


def _shown_ready(
    seen: PodSnapshot, container: Container, facts: ContainerFacts, *, serves: bool
) -> bool:
    """Init containers are ready when they have done their work, ephemeral ones never."""
    if serves:
        return is_ready(seen, container)
    return container in seen.pod.spec.init_containers and has_succeeded(facts)


def _as_shown(facts: ContainerFacts) -> ContainerFacts:
    """Until a restart has succeeded, the end of the attempt before is still what is known."""
    if facts.life is Life.STARTING and facts.last is not None:
        return replace(
            facts, life=Life.ENDED, attempt=facts.attempt - 1, ended=facts.last, last=None
        )
    return facts


def container_id(uid: str, name: str, attempt: int) -> str:
    return f"{CONTAINER_SCHEME}{uid}/{name}/{attempt}"


def _state(seen: PodSnapshot, container: Container, facts: ContainerFacts) -> State:
    match facts.life:
        case Life.RUNNING:
            return {"running": {"startedAt": _time(facts.started)}}
        case Life.ENDED if facts.ended is not None:
            if not _is_waiting_to_restart(seen, container, facts):
                return {"terminated": _terminated(seen, container, facts.ended, facts.attempt)}
            return {"waiting": _crash_loop(seen, container, facts)}
        case _:
            return {"waiting": _waiting(seen, container, facts)}


def _is_waiting_to_restart(seen: PodSnapshot, container: Container, facts: ContainerFacts) -> bool:
    if facts.ended is None or is_ending(seen) or is_over(seen):
        return False
    again = runs_again(seen.pod, container, facts.ended.code)
    return again and (facts.start.trouble is not None or seen.now < restart_at(facts))


def _last_state(seen: PodSnapshot, container: Container, facts: ContainerFacts) -> State:
    if _is_waiting_to_restart(seen, container, facts) and facts.ended is not None:
        return {"terminated": _terminated(seen, container, facts.ended, facts.attempt)}
    if facts.last is not None:
        return {"terminated": _terminated(seen, container, facts.last, facts.attempt - 1)}
    return {}


def _crash_loop(
    seen: PodSnapshot, container: Container, facts: ContainerFacts
) -> Mapping[str, str]:
    if facts.start.trouble is not None:
        return {"reason": facts.start.trouble.reason, "message": facts.start.trouble.message}
    meta = seen.pod.metadata
    delay = int(delay_before_restart(facts.crashes))
    minutes, seconds = divmod(delay, 60)
    words = f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
    message = (
        f"back-off {words} restarting failed container={container.name}"
        f" pod={meta.name}_{meta.namespace}({meta.uid})"
    )
    return {"reason": "CrashLoopBackOff", "message": message}


def _waiting(seen: PodSnapshot, container: Container, facts: ContainerFacts) -> Mapping[str, str]:
    trouble = facts.image.trouble or facts.start.trouble
    if trouble is not None:
        return {"reason": trouble.reason, "message": trouble.message}
    trouble = seen.facts.volumes.trouble or seen.facts.sandbox.trouble
    if trouble is not None:
        # A kubelet tells this in Events only; here whoever reads the status need not look further.
        return {"reason": "ContainerCreating", "message": trouble.message}
    inits = seen.pod.spec.init_containers
    if inits and (container in seen.pod.spec.containers or container is not inits[0]):
        return {"reason": "PodInitializing"}
    return {"reason": "PodInitializing" if inits else "ContainerCreating"}


def _terminated(
    seen: PodSnapshot, container: Container, ended: Ended, attempt: int
) -> dict[str, Any]:
    state: dict[str, Any] = {
        "exitCode": ended.code,
        "reason": ended.reason,
        "startedAt": _time(ended.started),
        "finishedAt": _time(ended.finished),
        "containerID": container_id(seen.pod.metadata.uid, container.name, max(attempt, 0)),
    }
    if message := ended.error or ended.message:
        state["message"] = message
    return state


def _time(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))
