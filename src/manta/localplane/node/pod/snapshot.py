"""What one reconciliation knows of a Pod: the input of plan and status. Frozen.

Times are seconds since the epoch, as the Pod's init records them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from manta.localplane.kubelet import termination_reason
from manta.localplane.node.gpus.device import GpuHealth
from manta.localplane.node.spec.pod_spec import Container, NodePod


class Step(Enum):
    """How far a background task of a Pod has come."""

    NOT_STARTED = auto()
    RUNNING = auto()
    DONE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task failed, and when to retry it."""

    reason: str
    message: str
    retry_at: float


@dataclass(frozen=True, slots=True)
class Progress:
    step: Step = Step.NOT_STARTED
    failure: Failure | None = None

    def may_start(self, now: float) -> bool:
        if self.step is Step.NOT_STARTED:
            return True
        return self.step is Step.FAILED and (self.failure is None or now >= self.failure.retry_at)


@dataclass(frozen=True, slots=True)
class Termination:
    """How a container's process ended."""

    code: int
    started: float
    finished: float
    signal: int = 0
    oom: bool = False
    error: str = ""
    """Set if the process could not be started."""
    message: str = ""
    """The termination message that the container left."""

    @property
    def reason(self) -> str:
        if self.error:
            return "StartError"
        if self.oom and self.code:
            return "OOMKilled"
        return termination_reason(self.code)


class ContainerState(Enum):
    """The state of a container's current attempt."""

    NOT_STARTED = auto()
    STARTING = auto()
    RUNNING = auto()
    TERMINATED = auto()


@dataclass(frozen=True, slots=True)
class Stopping:
    """A stop in progress: TERM was or will be sent, KILL follows at the deadline."""

    since: float
    deadline: float
    killed: bool = False


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    state: ContainerState = ContainerState.NOT_STARTED
    attempt: int = -1
    """Number of the current attempt, which is the number of restarts; -1 before the first start."""
    started: float = 0.0
    termination: Termination | None = None
    """How the current attempt ended."""
    last_termination: Termination | None = None
    """How the previous attempt ended."""
    image: Progress = Progress()
    image_id: str = ""
    start: Progress = Progress()
    """Preparation of a start: environment and mounts."""
    stopping: Stopping | None = None
    startup_passed: bool = False
    ready: bool = False
    unhealthy: str = ""
    """Why the container must be restarted: a probe or a hook failed."""
    unhealthy_grace: int | None = None
    """The grace period of the failed probe, if it has one."""
    crashes: int = 0
    """Consecutive ends without a long run in between; determines the restart delay."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What this node itself knows of a Pod; nothing here comes from the API server."""

    volumes: Progress = Progress()
    sandbox: Progress = Progress()
    address: str = ""
    containers: Mapping[str, ContainerFacts] = field(default_factory=dict)
    terminating_since: float | None = None
    """When this agent saw the deletion of the Pod."""

    def of(self, container: Container) -> ContainerFacts:
        return self.containers.get(container.name, ContainerFacts())


@dataclass(frozen=True, slots=True)
class PodSnapshot:
    pod: NodePod
    facts: PodFacts
    now: float
    host_address: str
    start_time: float
    """The Pod's startTime: when the node accepted it."""
    dns_error: str = ""
    """Why the Pod cannot resolve names; empty if it can."""
    gpus: Mapping[str, tuple[GpuHealth, ...]] = field(default_factory=dict)
    """What the Pod holds, by container."""

    @property
    def is_deleted(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def is_past_deadline(self) -> bool:
        limit = self.pod.spec.active_deadline_seconds
        return limit is not None and self.now >= self.start_time + limit

    @property
    def grace(self) -> float:
        """Seconds between TERM and KILL."""
        requested = self.pod.metadata.deletion_grace_period_seconds
        spec = self.pod.spec.termination_grace_period_seconds
        return float(requested if requested is not None else spec)
