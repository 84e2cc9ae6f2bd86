"""All that one round of the agent may know of a Pod. Frozen; made by observe, read by plan and status.

Times are seconds since the epoch, as the Pod's init records them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from manta.localplane.node.podspec import Container, NodePod


class Step(Enum):
    """How far a slow thing has come that the shell does for a Pod."""

    NOT_BEGUN = auto()
    UNDER_WAY = auto()
    DONE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why something does not go on, and when to try it again."""

    reason: str
    message: str
    retry_at: float


@dataclass(frozen=True, slots=True)
class Task:
    step: Step = Step.NOT_BEGUN
    trouble: Trouble | None = None

    def may_begin(self, now: float) -> bool:
        if self.step is Step.NOT_BEGUN:
            return True
        return self.step is Step.FAILED and (self.trouble is None or now >= self.trouble.retry_at)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a container's process ended."""

    code: int
    started: float
    finished: float
    signal: int = 0
    oom: bool = False
    error: str = ""
    """Set when the process could not be started at all."""
    message: str = ""
    """The termination message that the container left."""

    @property
    def reason(self) -> str:
        if self.error:
            return "StartError"
        if self.oom and self.code:
            return "OOMKilled"
        return "Error" if self.code else "Completed"


class Life(Enum):
    """A container's present attempt."""

    NONE = auto()
    STARTING = auto()
    RUNNING = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class Stopping:
    """A stop that is under way: TERM was or will be sent, KILL follows at the deadline."""

    since: float
    deadline: float
    killed: bool = False


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    life: Life = Life.NONE
    attempt: int = -1
    """Number of the present attempt; as many restarts have there been."""
    started: float = 0.0
    ended: Ended | None = None
    """Of the present attempt."""
    last: Ended | None = None
    """Of the attempt before."""
    image: Task = Task()
    image_id: str = ""
    start: Task = Task()
    """Making ready what a start needs: environment, mounts. Its trouble is the container's."""
    stopping: Stopping | None = None
    startup_passed: bool = False
    ready: bool = False
    sick: str = ""
    """Why the container must be restarted: a probe or a hook failed."""
    sick_grace: int | None = None
    """The grace period that the failed probe demands, if it demands one."""
    crashes: int = 0
    """Consecutive ends without a long run in between; decides the restart delay."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What this node knows of a Pod by itself: nothing here comes from the API server."""

    volumes: Task = Task()
    sandbox: Task = Task()
    address: str = ""
    containers: Mapping[str, ContainerFacts] = field(default_factory=dict)
    terminating_since: float | None = None
    """When this agent learned that the Pod must go."""

    def of(self, container: Container) -> ContainerFacts:
        return self.containers.get(container.name, ContainerFacts())


@dataclass(frozen=True, slots=True)
class PodSnapshot:
    pod: NodePod
    facts: PodFacts
    now: float
    host_address: str
    accepted: float
    """When the node took the Pod: its startTime."""
    dns_trouble: str = ""
    """Why the Pod finds no names, if it wants to and does not."""

    @property
    def is_deleted(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def is_past_deadline(self) -> bool:
        limit = self.pod.spec.active_deadline_seconds
        return limit is not None and self.now >= self.accepted + limit

    @property
    def grace(self) -> float:
        """Seconds that the Pod's processes get between TERM and KILL."""
        asked = self.pod.metadata.deletion_grace_period_seconds
        spec = self.pod.spec.termination_grace_period_seconds
        return float(asked if asked is not None else spec)
