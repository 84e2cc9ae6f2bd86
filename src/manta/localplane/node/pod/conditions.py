"""The conditions of a Pod, as a kubelet writes them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from manta.api.times import format_time
from manta.localplane.node.pod.plan import has_passed_startup, lets_next_start
from manta.localplane.node.pod.snapshot import ContainerState, PodSnapshot, Step
from manta.localplane.node.spec.pod_spec import Container, PodCondition

DNS_UNAVAILABLE = "DnsUnavailable"
"""A condition of our own: the Pod runs, but cannot resolve names."""


def pod_conditions(snapshot: PodSnapshot, phase: str) -> Iterator[dict[str, Any]]:
    sandbox = snapshot.facts.sandbox.step is Step.DONE
    yield _condition(snapshot, "PodReadyToStartContainers", holds=sandbox)
    yield _initialized(snapshot, phase)
    unready = [one.name for one in _serving(snapshot) if not is_ready(snapshot, one)]
    reason, message = _unready_reason(phase, unready)
    gated, words = (reason, message) if reason else _unmet_gate(snapshot)
    yield _condition(snapshot, "Ready", gated, words, holds=not gated)
    yield _condition(snapshot, "ContainersReady", reason, message, holds=not reason)
    if snapshot.dns_error:
        yield _condition(
            snapshot, DNS_UNAVAILABLE, "NameServerNotStarted", snapshot.dns_error, holds=True
        )
    known = {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"}
    known.add(DNS_UNAVAILABLE)
    for kept in snapshot.pod.status.conditions:
        if kept.type not in known:
            yield condition_fields(kept)


def _serving(snapshot: PodSnapshot) -> list[Container]:
    sidecars = [one for one in snapshot.pod.spec.init_containers if snapshot.pod.is_sidecar(one)]
    return [*sidecars, *snapshot.pod.spec.containers]


def is_ready(snapshot: PodSnapshot, container: Container) -> bool:
    facts = snapshot.facts.of(container)
    if facts.state is not ContainerState.RUNNING or not has_passed_startup(container, facts):
        return False
    return container.readiness_probe is None or facts.ready


def _unready_reason(phase: str, unready: Sequence[str]) -> tuple[str, str]:
    if phase == "Succeeded":
        return "PodCompleted", ""
    if phase == "Failed":
        return "PodFailed", ""
    if unready:
        return "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    return "", ""


def _unmet_gate(snapshot: PodSnapshot) -> tuple[str, str]:
    met = {one.type for one in snapshot.pod.status.conditions if one.status == "True"}
    for gate in snapshot.pod.spec.readiness_gates:
        if gate.condition_type not in met:
            words = f'corresponding condition of pod readiness gate "{gate.condition_type}"'
            return "ReadinessGatesNotReady", f"{words} does not exist or is not True."
    return "", ""


def _initialized(snapshot: PodSnapshot, phase: str) -> dict[str, Any]:
    waiting = [
        one.name for one in snapshot.pod.spec.init_containers if not lets_next_start(snapshot, one)
    ]
    if phase == "Succeeded" or not waiting:
        reason = (
            "PodCompleted" if phase == "Succeeded" and snapshot.pod.spec.init_containers else ""
        )
        return _condition(snapshot, "Initialized", reason, holds=True)
    message = f"containers with incomplete status: [{' '.join(waiting)}]"
    return _condition(snapshot, "Initialized", "ContainersNotInitialized", message, holds=False)


def _condition(
    snapshot: PodSnapshot, kind: str, reason: str = "", message: str = "", *, holds: bool
) -> dict[str, Any]:
    status = "True" if holds else "False"
    before = next((one for one in snapshot.pod.status.conditions if one.type == kind), None)
    since = before.last_transition_time if before and before.status == status else None
    made: dict[str, Any] = {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": since or api_time(snapshot.now),
    }
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    return made


def condition_fields(condition: PodCondition) -> dict[str, Any]:
    """An unchanged condition, for a list of conditions that is written again."""
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


def api_time(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))
