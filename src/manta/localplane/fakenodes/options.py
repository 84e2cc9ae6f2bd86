"""The options of fake nodes."""

from __future__ import annotations

from dataclasses import dataclass, field

from manta.localplane.fakenodes.script import Script


@dataclass(frozen=True, slots=True)
class FakeNodeOptions:
    count: int = 1
    prefix: str = "fake-node-"
    cpu: str = "64"
    memory: str = "256Gi"
    pods: str = "5000"
    extended: dict[str, str] = field(default_factory=dict)
    """Further resources of every node, such as `nvidia.com/gpu: "8"`."""
    labels: dict[str, str] = field(default_factory=dict)
    heartbeat: float = 10.0
    """Seconds between renewals of a Lease."""
    script: Script = field(default_factory=lambda: Script(start=0.2))
    """The script of Pods without one."""
    job_seconds: float = 1.0
    """Seconds after which a Job's Pod without a script succeeds."""
    pod_ip: str = ""
    """One address for all Pods; empty: each Pod gets its own."""
    taint: str = ""
    """Key of a NoSchedule taint that keeps other Pods off these nodes on a shared cluster."""

    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}{number}" for number in range(self.count))
