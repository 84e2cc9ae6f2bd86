"""What the node agent and the fake nodes do alike, as a kubelet does it: restart policy, back-off,
messages, node conditions and the node's Lease. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manta.api.meta import ObjectMeta
from manta.api.resources import LEASES

FIRST_RESTART_DELAY_SECONDS = 10.0
LONGEST_RESTART_DELAY_SECONDS = 300.0
RESTART_RESET = 600.0
"""A container that ran for this many seconds has not crashed: its delay starts again at zero."""

PULL_DELAYS = (10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
"""Seconds before each further attempt to pull an image."""
PULL_ERROR_SHOWN = 2.0
"""Seconds for which a container shows ErrImagePull before it shows ImagePullBackOff."""

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40

HEALTHY = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}
"""Condition type -> reason and message of a node that lacks nothing."""


# ── restarts ─────────────────────────────────────────────────────────────────────────────
def restarts_container(policy: str, code: int) -> bool:
    """Whether a Pod's `restartPolicy` restarts a container that ended with `code`."""
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def restart_delay(crashes: int) -> float:
    """Seconds before the restart after so many crashes: 0, then 10, doubling up to 300."""
    if crashes <= 1:
        return 0.0
    return float(
        min(FIRST_RESTART_DELAY_SECONDS * 2 ** min(crashes - 2, 10), LONGEST_RESTART_DELAY_SECONDS)
    )


def crashes_after(crashes: int, started: float, finished: float) -> int:
    """The crash count after a container ran from `started` to `finished`."""
    return 1 if finished - started >= RESTART_RESET else crashes + 1


def crash_loop(container: str, pod: ObjectMeta, crashes: int) -> str:
    """The message of CrashLoopBackOff."""
    minutes, seconds = divmod(int(restart_delay(crashes)), 60)
    delay = f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
    name = f"{pod.name}_{pod.namespace}({pod.uid})"
    return f"back-off {delay} restarting failed container={container} pod={name}"


def termination_reason(code: int) -> str:
    return "Error" if code else "Completed"


# ── image pulls ──────────────────────────────────────────────────────────────────────────
def pull_failed(image: str, cause: str) -> str:
    """The message of ErrImagePull."""
    return f'Failed to pull image "{image}": {cause}'


def pull_back_off(image: str, failure: str = "") -> str:
    """The message of ImagePullBackOff; `failure` is `REASON: MESSAGE` of the last attempt."""
    return f'Back-off pulling image "{image}"' + (f": {failure}" if failure else "")


# ── nodes ────────────────────────────────────────────────────────────────────────────────
def node_condition(type_: str, status: str, reason: str, message: str, now: str) -> dict[str, str]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


def node_conditions(
    now: str, shortages: Mapping[str, tuple[str, str]] | None = None
) -> list[dict[str, str]]:
    """The conditions of a Ready node. `shortages`: condition type -> reason and message."""
    shortages = shortages or {}
    pressures = [
        node_condition(type_, str(type_ in shortages), *shortages.get(type_, healthy), now)
        for type_, healthy in HEALTHY.items()
    ]
    ready = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
    return [*pressures, node_condition(*ready, now)]


def lease_spec(node: str, now: str) -> dict[str, Any]:
    """`now` with microseconds."""
    return {"holderIdentity": node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}


def lease_manifest(
    node: str, now: str, owners: tuple[Mapping[str, str], ...] = ()
) -> dict[str, Any]:
    """The Lease that shows that a node is alive."""
    metadata: dict[str, Any] = {"name": node, "namespace": LEASE_NAMESPACE}
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": metadata | ({"ownerReferences": list(owners)} if owners else {}),
        "spec": lease_spec(node, now),
    }
