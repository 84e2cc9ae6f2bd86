"""The row of a Pod: how many containers are ready, what state it is in, how often it restarted."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from manta.localplane.apiserver.tables.columns import object_age, since

Object = dict[str, Any]


def pod_cells(pod: Object, now: datetime) -> list[Any]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    containers = status.get("containerStatuses") or []
    ready = sum(1 for one in containers if one.get("ready") and "running" in _state(one))
    sidecars = _sidecars(spec, status)
    ready += sum(1 for one in sidecars if one.get("ready"))
    wanted = len(spec.get("containers") or []) + len(sidecars)
    address = (status.get("podIPs") or [{}])[0].get("ip") or status.get("podIP")
    return [
        pod["metadata"]["name"],
        f"{ready}/{wanted}",
        _phase(pod, spec, status),
        _restarts([*containers, *sidecars], now),
        object_age(pod, now),
        address or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        _gates(spec, status),
    ]


def _state(container: Object) -> Object:
    state: Object = container.get("state") or {}
    return state


def _sidecars(spec: Object, status: Object) -> list[Object]:
    names = {
        one["name"]
        for one in spec.get("initContainers") or ()
        if one.get("restartPolicy") == "Always"
    }
    return [one for one in status.get("initContainerStatuses") or () if one["name"] in names]


def _phase(pod: Object, spec: Object, status: Object) -> str:
    phase = status.get("phase") or ""
    reason = status.get("reason") or phase
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    starting = _starting(spec, status)
    reason = starting or _running_reason(status, reason)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return reason


def _starting(spec: Object, status: Object) -> str:
    """The status of the first init container that has not succeeded, or ''."""
    known = status.get("initContainerStatuses") or []
    total = len(spec.get("initContainers") or [])
    sidecars = {one["name"] for one in _sidecars(spec, status)}
    for number, container in enumerate(known):
        state = _state(container)
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if container["name"] in sidecars and container.get("started"):
            continue
        if ended is not None:
            return f"Init:{_ended(ended)}"
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{number}/{total}"
    return ""


def _ended(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _running_reason(status: Object, reason: str) -> str:
    running = False
    for container in reversed(status.get("containerStatuses") or []):
        state = _state(container)
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = _ended(ended)
        elif container.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        ready = any(
            one.get("type") == "Ready" and one.get("status") == "True"
            for one in status.get("conditions") or ()
        )
        return "Running" if ready else "NotReady"
    return reason


def _restarts(containers: list[Object], now: datetime) -> str:
    count = sum(int(one.get("restartCount") or 0) for one in containers)
    ends = [
        ((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
        for one in containers
    ]
    latest = max((end for end in ends if end), default=None)
    return f"{count} ({since(latest, now)} ago)" if count and latest else str(count)


def _gates(spec: Object, status: Object) -> str:
    gates = spec.get("readinessGates") or []
    if not gates:
        return "<none>"
    true = {
        one.get("type") for one in status.get("conditions") or () if one.get("status") == "True"
    }
    met = sum(1 for gate in gates if gate.get("conditionType") in true)
    return f"{met}/{len(gates)}"
