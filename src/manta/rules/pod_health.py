"""Whether a Ray Pod is ready, failed or blocked, and why: from its status alone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from manta.api.conditions import Blockage, find, is_true
from manta.api.core import ContainerStatus, Pod
from manta.api.times import parse_time

POD_FAILED: Final = "PodFailed"


class Phase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


def is_running(pod: Pod) -> bool:
    return pod.status.phase == Phase.RUNNING


def is_ready(pod: Pod) -> bool:
    return is_running(pod) and is_true(pod.status.conditions, "Ready")


def is_ready_but_for(pod: Pod, container: str) -> bool:
    """Whether it is not ready only because this container has ended, with exit code 0."""
    status = pod.container_status(container)
    ended = status.state.terminated if status else None
    others = [one for one in pod.status.container_statuses if one is not status]
    ended_well = ended is not None and ended.exit_code == 0
    return is_running(pod) and ended_well and bool(others) and all(one.ready for one in others)


def runs_ray(pod: Pod) -> bool:
    """Whether the Ray container runs now. If not, what it had in memory is gone, or was never there."""
    ray = _ray_container_status(pod)
    return is_running(pod) and (ray is None or ray.state.running is not None)


def is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def was_never_begun(pod: Pod, known_address: str = "") -> bool:
    """Whether it failed before any container ran: its node rejected it.

    A kubelet that was restarted may reject a Pod that runs, and an old one evicts it, and then no status of a
    container is left. An address, also one that the Pod no longer shows, tells that its containers may have run.
    """
    if pod.status.phase != "Failed":
        return False
    if not pod.status.container_statuses and (pod.status.pod_ip or known_address):
        return False
    states = (state for one in _all_statuses(pod) for state in (one.state, one.last_state))
    return all(state.running is None and state.terminated is None for state in states)


def beyond_repair(pod: Pod) -> str:
    """Why the kubelet will not restart this Pod; empty if it may."""
    if pod.status.phase in (Phase.FAILED, Phase.SUCCEEDED):
        cause = _ended_by(pod)
        return f"Pod {pod.metadata.name} has ended as {pod.status.phase}{f': {cause}' if cause else ''}"
    ray = _ray_container_status(pod)
    ended = ray.state.terminated if ray else None
    if is_running(pod) and ray and ended and pod.spec.restart_policy == "Never":
        return (
            f"container {ray.name} of Pod {pod.metadata.name} exited with code"
            f" {ended.exit_code}{_reason(ended.reason)} and its restartPolicy is Never"
        )
    return ""


def ended_at(pod: Pod) -> datetime | None:
    """When the last container ended; None if the status does not say."""
    times = [
        status.state.terminated.finished_at
        for status in _all_statuses(pod)
        if status.state.terminated and status.state.terminated.finished_at
    ]
    return max((parse_time(text) for text in times), default=None)


def _ray_container_status(pod: Pod) -> ContainerStatus | None:
    """The status of the first container of the *spec*: statuses have no fixed order."""
    return pod.container_status(pod.spec.containers[0].name) if pod.spec.containers else None


def _all_statuses(pod: Pod) -> Iterable[ContainerStatus]:
    yield from pod.status.init_container_statuses
    yield from pod.status.container_statuses


def _ended_by(pod: Pod) -> str:
    """The container that failed, else the kubelet's reason (Evicted, NodeLost ...)."""
    for status in _all_statuses(pod):
        ended = status.state.terminated
        if ended and ended.exit_code != 0:
            return (
                f"container {status.name} exited with code {ended.exit_code}{_reason(ended.reason)}"
            )
    return " ".join(part for part in (pod.status.reason, pod.status.message) if part)


def _reason(reason: str) -> str:
    return f" ({reason})" if reason and reason != "Error" else ""


# ── what blocks it ───────────────────────────────────────────────────────────────────────

# Reasons of a container that is starting normally, for a while.
_NORMAL_WAITS = frozenset({"", "ContainerCreating", "PodInitializing"})
START_WITHIN: Final = timedelta(minutes=5)
"""Mounting volumes and pulling a large image takes minutes; after this time somebody should look."""


def blockage(pod: Pod) -> Blockage | None:
    """What keeps this Pod from becoming ready; None if it is just starting, or ready."""
    ended = beyond_repair(pod)
    if ended:
        return Blockage(POD_FAILED, ended)
    for status in _all_statuses(pod):
        found = _container_blockage(pod, status)
        if found:
            return found
    scheduled = find(pod.status.conditions, "PodScheduled")
    if scheduled and scheduled.status == "False" and scheduled.reason != "SchedulingGated":
        what = f"Pod {pod.metadata.name} cannot be scheduled"
        return Blockage(scheduled.reason or "Unschedulable", _sentence(what, scheduled.message))
    return None


def _container_blockage(pod: Pod, status: ContainerStatus) -> Blockage | None:
    waiting, last = status.state.waiting, status.last_state.terminated
    where = f"container {status.name} of Pod {pod.metadata.name}"
    if waiting and waiting.reason not in _NORMAL_WAITS:
        what = f"{where} is waiting: {waiting.reason}"
        if last:
            what += f", last exit code {last.exit_code}{_reason(last.reason)}"
        return Blockage(waiting.reason, _sentence(what, waiting.message))
    ended = status.state.terminated
    if ended and ended.exit_code != 0:
        reason = ended.reason or "Error"
        what = f"{where} exited with code {ended.exit_code}{_reason(ended.reason)}"
        return Blockage(reason, _sentence(what, ended.message))
    return None


# ── what takes too long ──────────────────────────────────────────────────────────────────


def slow_start(pod: Pod, now: datetime) -> Blockage | None:
    """The container that should have started long ago, as with a volume or an image that does not come.

    The kubelet says why in Events of the Pod only.
    """
    overdue = start_overdue_at(pod)
    if overdue is None or now < overdue:
        return None
    minutes, name = START_WITHIN // timedelta(minutes=1), pod.metadata.name
    where = f"its Events say why: kubectl describe pod {name}"
    status = next((one for one in _all_statuses(pod) if _is_being_created(one)), None)
    if status is None:
        node = f"node {pod.spec.node_name}" if pod.spec.node_name else "any node"
        return Blockage(
            "NotStarted", f"Pod {name} was not begun on {node} in {minutes} minutes: {where}"
        )
    waiting = status.state.waiting
    reason = (waiting.reason if waiting else "") or "ContainerCreating"
    what = f"container {status.name} of Pod {name} is waiting for more than {minutes} minutes: {reason}"
    first = next((one for one in pod.status.init_container_statuses if one.state.running), None)
    if reason == "PodInitializing" and first is not None:
        where = f"init container {first.name} still runs; see its log"
    return Blockage(reason, _sentence(what, (waiting.message if waiting else "") or where))


def start_overdue_at(pod: Pod) -> datetime | None:
    """When a Pod whose containers are still being created is late; None for any other Pod."""
    statuses = tuple(_all_statuses(pod))
    is_starting = any(map(_is_being_created, statuses)) if statuses else _is_untouched(pod)
    if not is_starting or is_terminating(pod):
        return None
    scheduled = find(pod.status.conditions, "PodScheduled")
    texts = (pod.metadata.creation_timestamp, scheduled.last_transition_time if scheduled else None)
    times = [parse_time(text) for text in texts if text]
    ended = ended_at(pod)  # the last init container
    return max([*times, ended] if ended else times) + START_WITHIN if times else None


def slow_readiness(pod: Pod, now: datetime) -> Blockage | None:
    """A container that has run for long and is not ready; or all are, and the Pod is not: its node may be lost."""
    ready = find(pod.status.conditions, "Ready")
    if not is_running(pod) or ready is None or ready.status == "True":
        return None
    status = next((one for one in pod.status.container_statuses if not one.ready), None)
    if status is not None and status.state.running is None:
        return None
    began = status.state.running.started_at if status and status.state.running else None
    times = [parse_time(text) for text in (ready.last_transition_time, began) if text]
    if not times or now < max(times) + START_WITHIN:
        return None
    minutes, name = START_WITHIN // timedelta(minutes=1), pod.metadata.name
    which = f"container {status.name} of Pod {name}" if status else f"Pod {name}"
    what = f"{which} runs, but has not been ready for more than {minutes} minutes"
    hint = f"its Events and its log say why: kubectl describe pod {name}"
    if status is None:
        hint = f"look at its readiness gates and at node {pod.spec.node_name}"
    return Blockage("NotReady", f"{what}: {hint}")


def _is_being_created(status: ContainerStatus) -> bool:
    state = status.state
    if state.running is not None or state.terminated is not None:
        return False
    return state.waiting is None or state.waiting.reason in _NORMAL_WAITS


def _is_untouched(pod: Pod) -> bool:
    """Neither a scheduler nor a kubelet has said anything about it, or only that it has a node."""
    scheduled = find(pod.status.conditions, "PodScheduled")
    says_why_not = scheduled is not None and scheduled.status == "False"
    return pod.status.phase == Phase.PENDING and not says_why_not and not pod.spec.scheduling_gates


def _sentence(what: str, detail: str) -> str:
    detail = " ".join(detail.split())
    return f"{what}: {detail}" if detail else what
