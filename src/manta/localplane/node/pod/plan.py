"""The next actions for one Pod, and when to plan again. Pure.

The order is a kubelet's: volumes, sandbox, init containers one by one (sidecars stay), then all
containers at once. A deleted Pod gets TERM, its grace period, KILL; its sidecars go last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from manta.localplane.node.pod.restarts import restart_at, should_restart
from manta.localplane.node.pod.snapshot import ContainerFacts, ContainerState, PodSnapshot, Step
from manta.localplane.node.spec.pod_spec import Container


@dataclass(frozen=True, slots=True)
class PrepareVolumes:
    pass


@dataclass(frozen=True, slots=True)
class CreateSandbox:
    pass


@dataclass(frozen=True, slots=True)
class PullImage:
    container: str


@dataclass(frozen=True, slots=True)
class StartContainer:
    container: str
    attempt: int


@dataclass(frozen=True, slots=True)
class StopContainer:
    """Run the preStop hook, then send TERM. KILL is planned when `grace` seconds are over."""

    container: str
    grace: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class KillContainer:
    container: str


@dataclass(frozen=True, slots=True)
class KillSandbox:
    pass


@dataclass(frozen=True, slots=True)
class FinishDeletion:
    """Delete the API object; nothing of the Pod is left on the node."""


PodAction = (
    PrepareVolumes
    | CreateSandbox
    | PullImage
    | StartContainer
    | StopContainer
    | KillContainer
    | KillSandbox
    | FinishDeletion
)


@dataclass(frozen=True, slots=True)
class PodPlan:
    actions: tuple[PodAction, ...] = ()
    wake_at: float | None = None
    """When to plan again if nothing changes."""


def plan_pod(snapshot: PodSnapshot) -> PodPlan:
    if is_terminating(snapshot):
        return _plan_termination(snapshot)
    if is_over(snapshot):
        return _plan_cleanup(snapshot)
    return _plan_running_pod(snapshot)


# ── the three states of a Pod ────────────────────────────────────────────────────────────
def is_terminating(snapshot: PodSnapshot) -> bool:
    """The Pod was deleted or is past its deadline."""
    return snapshot.is_deleted or snapshot.is_past_deadline


def is_over(snapshot: PodSnapshot) -> bool:
    """All containers have ended and none will restart."""
    if snapshot.pod.status.phase in ("Succeeded", "Failed"):
        return True
    if failed_init(snapshot) is not None:
        return True
    return bool(snapshot.pod.spec.containers) and all(
        _is_finished(snapshot, container) for container in snapshot.pod.spec.containers
    )


def holds_nothing(snapshot: PodSnapshot) -> bool:
    """The Pod has ended and no process of it is left, so that others can have its devices."""
    ended = is_terminating(snapshot) or is_over(snapshot)
    gone = snapshot.facts.sandbox.step in (Step.NOT_STARTED, Step.FAILED)
    return ended and gone and not _any_running(snapshot, snapshot.pod.containers())


def failed_init(snapshot: PodSnapshot) -> Container | None:
    """The init container that failed and will not restart, or None."""
    for container in snapshot.pod.spec.init_containers:
        ended = snapshot.facts.of(container).termination
        if ended and ended.code and not should_restart(snapshot.pod, container, ended.code):
            return container
    return None


def _is_finished(snapshot: PodSnapshot, container: Container) -> bool:
    facts = snapshot.facts.of(container)
    if facts.state is not ContainerState.TERMINATED or facts.termination is None:
        return False
    return not should_restart(snapshot.pod, container, facts.termination.code)


# ── life ─────────────────────────────────────────────────────────────────────────────────
def _plan_running_pod(snapshot: PodSnapshot) -> PodPlan:
    facts = snapshot.facts
    actions: list[PodAction] = list(_pulls(snapshot))
    if facts.volumes.step is not Step.DONE:
        if facts.volumes.may_start(snapshot.now):
            actions.append(PrepareVolumes())
        return PodPlan(tuple(actions), _next_deadline(snapshot))
    if facts.sandbox.step is not Step.DONE:
        if facts.sandbox.may_start(snapshot.now):
            actions.append(CreateSandbox())
        return PodPlan(tuple(actions), _next_deadline(snapshot))
    for container in _due_containers(snapshot):
        actions.extend(_plan_container(snapshot, container))
    return PodPlan(tuple(actions), _next_deadline(snapshot))


def _pulls(snapshot: PodSnapshot) -> Iterator[PullImage]:
    """Pull all images at the same time."""
    for container in snapshot.pod.containers():
        facts = snapshot.facts.of(container)
        if _will_start(snapshot, container, facts) and facts.image.may_start(snapshot.now):
            yield PullImage(container.name)


def _will_start(snapshot: PodSnapshot, container: Container, facts: ContainerFacts) -> bool:
    if facts.state is ContainerState.TERMINATED and facts.termination is not None:
        return should_restart(snapshot.pod, container, facts.termination.code)
    return facts.state is ContainerState.NOT_STARTED


def _due_containers(snapshot: PodSnapshot) -> list[Container]:
    """The containers that should run now: init containers up to the first that blocks the next, then the
    app containers. Ephemeral containers do not wait."""
    wanted: list[Container] = []
    for container in snapshot.pod.spec.init_containers:
        facts = snapshot.facts.of(container)
        sidecar = snapshot.pod.is_sidecar(container)
        if sidecar or not has_succeeded(facts):
            wanted.append(container)
        if not lets_next_start(snapshot, container):
            return [*wanted, *snapshot.pod.spec.ephemeral_containers]
    return [*wanted, *snapshot.pod.spec.containers, *snapshot.pod.spec.ephemeral_containers]


def has_succeeded(facts: ContainerFacts) -> bool:
    return (
        facts.state is ContainerState.TERMINATED
        and facts.termination is not None
        and facts.termination.code == 0
    )


def lets_next_start(snapshot: PodSnapshot, container: Container) -> bool:
    """Whether the containers after this init container may start."""
    facts = snapshot.facts.of(container)
    if not snapshot.pod.is_sidecar(container):
        return has_succeeded(facts)
    if facts.state is ContainerState.RUNNING and has_passed_startup(container, facts):
        return True
    # A sidecar that crashed after its start does not block the containers after it again.
    return any(snapshot.facts.of(later).attempt >= 0 for later in snapshot.pod.spec.containers)


def has_passed_startup(container: Container, facts: ContainerFacts) -> bool:
    return container.startup_probe is None or facts.startup_passed


def _plan_container(snapshot: PodSnapshot, container: Container) -> Iterator[PodAction]:
    facts = snapshot.facts.of(container)
    match facts.state:
        case ContainerState.NOT_STARTED:
            if _may_start(facts, snapshot.now):
                yield StartContainer(container.name, facts.attempt + 1)
        case ContainerState.STARTING:
            return
        case ContainerState.RUNNING:
            yield from _plan_running(snapshot, container, facts)
        case ContainerState.TERMINATED:
            again = facts.termination is not None and should_restart(
                snapshot.pod, container, facts.termination.code
            )
            if again and snapshot.now >= restart_at(facts) and _may_start(facts, snapshot.now):
                yield StartContainer(container.name, facts.attempt + 1)


def _may_start(facts: ContainerFacts, now: float) -> bool:
    return facts.image.step is Step.DONE and facts.start.may_start(now)


def _plan_running(
    snapshot: PodSnapshot, container: Container, facts: ContainerFacts
) -> Iterator[PodAction]:
    if facts.stopping is not None:
        if snapshot.now >= facts.stopping.deadline and not facts.stopping.killed:
            yield KillContainer(container.name)
    elif facts.unhealthy:
        grace = facts.unhealthy_grace
        if grace is None:
            grace = snapshot.pod.spec.termination_grace_period_seconds
        yield StopContainer(container.name, float(grace), facts.unhealthy)


# ── the end ──────────────────────────────────────────────────────────────────────────────
def _plan_termination(snapshot: PodSnapshot) -> PodPlan:
    """Stop all containers in order, then clean up."""
    actions = list(_plan_stops(snapshot, snapshot.pod.containers(), snapshot.grace))
    if _any_running(snapshot, snapshot.pod.containers()):
        return PodPlan(tuple(actions), _next_deadline(snapshot))
    return _plan_cleanup(snapshot)


def _plan_cleanup(snapshot: PodSnapshot) -> PodPlan:
    """Stop what still runs, then remove the sandbox, then finish the deletion."""
    actions = list(_plan_stops(snapshot, snapshot.pod.containers(), snapshot.grace))
    if actions or _any_running(snapshot, snapshot.pod.containers()):
        return PodPlan(tuple(actions), _next_deadline(snapshot))
    if snapshot.facts.sandbox.step is Step.DONE:
        return PodPlan((KillSandbox(),))
    if snapshot.facts.sandbox.step is Step.RUNNING:
        return PodPlan()  # being created or killed: its end wakes the worker
    if snapshot.is_deleted:
        return PodPlan((FinishDeletion(),))
    return PodPlan()


def _plan_stops(
    snapshot: PodSnapshot, containers: Iterable[Container], grace: float
) -> Iterator[PodAction]:
    """Stop app and init containers first, then the sidecars in reverse order."""
    alive = [one for one in containers if _is_running(snapshot.facts.of(one))]
    sidecars = [one for one in alive if snapshot.pod.is_sidecar(one)]
    others = [one for one in alive if one not in sidecars]
    began = snapshot.facts.terminating_since or snapshot.now
    for container in others or sidecars[-1:]:
        facts = snapshot.facts.of(container)
        if facts.stopping is None:
            left = began + grace - snapshot.now if snapshot.is_deleted else grace
            yield StopContainer(container.name, max(left, 0.0))
        elif _kill_is_due(snapshot, facts, began + grace):
            yield KillContainer(container.name)


def _kill_is_due(snapshot: PodSnapshot, facts: ContainerFacts, pod_deadline: float) -> bool:
    """A second deletion can shorten the grace period, never extend it."""
    stopping = facts.stopping
    if stopping is None or stopping.killed:
        return False
    deadline = min(stopping.deadline, pod_deadline) if snapshot.is_deleted else stopping.deadline
    return snapshot.now >= deadline


def _is_running(facts: ContainerFacts) -> bool:
    return facts.state in (ContainerState.STARTING, ContainerState.RUNNING)


def _any_running(snapshot: PodSnapshot, containers: Iterable[Container]) -> bool:
    return any(_is_running(snapshot.facts.of(container)) for container in containers)


# ── the next time ────────────────────────────────────────────────────────────────────────
def _next_deadline(snapshot: PodSnapshot) -> float | None:
    """The next time after now at which an action is due."""
    due = [moment for moment in _deadlines(snapshot) if moment > snapshot.now]
    return min(due, default=None)


def _deadlines(snapshot: PodSnapshot) -> Iterator[float]:
    facts = snapshot.facts
    for task in (facts.volumes, facts.sandbox):
        if task.failure is not None:
            yield task.failure.retry_at
    if snapshot.pod.spec.active_deadline_seconds is not None:
        yield snapshot.start_time + snapshot.pod.spec.active_deadline_seconds
    if facts.terminating_since is not None and snapshot.is_deleted:
        yield facts.terminating_since + snapshot.grace
    for container in snapshot.pod.containers():
        known = facts.of(container)
        for task in (known.image, known.start):
            if task.failure is not None:
                yield task.failure.retry_at
        if known.stopping is not None:
            yield known.stopping.deadline
        if known.state is ContainerState.TERMINATED:
            yield restart_at(known)
