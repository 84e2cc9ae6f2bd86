"""What to do next for one Pod. Pure: facts in, actions and the next look out.

The order is a kubelet's: volumes, sandbox, init containers one by one (sidecars stay), then all
containers at once. A deleted Pod gets TERM, its grace period, KILL; its sidecars go last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from manta.localplane.node.podspec import Container
from manta.localplane.node.restarts import restart_at, runs_again
from manta.localplane.node.snapshot import ContainerFacts, Life, PodSnapshot, Step


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
    """Nothing of the Pod is left: tell the API server, and forget the Pod."""


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
    """When time alone makes a new round worthwhile."""


def plan_pod(seen: PodSnapshot) -> PodPlan:
    if is_ending(seen):
        return _plan_end(seen)
    if is_over(seen):
        return _plan_rest(seen)
    return _plan_life(seen)


# ── the three states of a Pod ────────────────────────────────────────────────────────────
def is_ending(seen: PodSnapshot) -> bool:
    """Somebody wants the Pod's processes to end, whatever its restart policy says."""
    return seen.is_deleted or seen.is_past_deadline


def is_over(seen: PodSnapshot) -> bool:
    """The Pod's work has ended and will not begin again."""
    if seen.pod.status.phase in ("Succeeded", "Failed"):
        return True
    if failed_init(seen) is not None:
        return True
    return bool(seen.pod.spec.containers) and all(
        _is_finished(seen, container) for container in seen.pod.spec.containers
    )


def failed_init(seen: PodSnapshot) -> Container | None:
    """The init container that failed for good."""
    for container in seen.pod.spec.init_containers:
        ended = seen.facts.of(container).ended
        if ended and ended.code and not runs_again(seen.pod, container, ended.code):
            return container
    return None


def _is_finished(seen: PodSnapshot, container: Container) -> bool:
    facts = seen.facts.of(container)
    if facts.life is not Life.ENDED or facts.ended is None:
        return False
    return not runs_again(seen.pod, container, facts.ended.code)


# ── life ─────────────────────────────────────────────────────────────────────────────────
def _plan_life(seen: PodSnapshot) -> PodPlan:
    facts = seen.facts
    actions: list[PodAction] = list(_pulls(seen))
    if facts.volumes.step is not Step.DONE:
        if facts.volumes.may_begin(seen.now):
            actions.append(PrepareVolumes())
        return PodPlan(tuple(actions), _wake(seen))
    if facts.sandbox.step is not Step.DONE:
        if facts.sandbox.may_begin(seen.now):
            actions.append(CreateSandbox())
        return PodPlan(tuple(actions), _wake(seen))
    for container in _wanted(seen):
        actions.extend(_care_for(seen, container))
    return PodPlan(tuple(actions), _wake(seen))


def _pulls(seen: PodSnapshot) -> Iterator[PullImage]:
    """All images at once: the first Pod of an image pays, nobody waits in a queue."""
    for container in seen.pod.containers():
        facts = seen.facts.of(container)
        if _will_start(seen, container, facts) and facts.image.may_begin(seen.now):
            yield PullImage(container.name)


def _will_start(seen: PodSnapshot, container: Container, facts: ContainerFacts) -> bool:
    if facts.life is Life.ENDED and facts.ended is not None:
        return runs_again(seen.pod, container, facts.ended.code)
    return facts.life is Life.NONE


def _wanted(seen: PodSnapshot) -> list[Container]:
    """The containers that should be cared for now: init containers up to the first that is
    not through, and the app containers once all are. Ephemeral ones wait for nobody."""
    wanted: list[Container] = []
    for container in seen.pod.spec.init_containers:
        facts = seen.facts.of(container)
        sidecar = seen.pod.is_sidecar(container)
        if sidecar or not has_succeeded(facts):
            wanted.append(container)
        if not is_through(seen, container):
            return [*wanted, *seen.pod.spec.ephemeral_containers]
    return [*wanted, *seen.pod.spec.containers, *seen.pod.spec.ephemeral_containers]


def has_succeeded(facts: ContainerFacts) -> bool:
    return facts.life is Life.ENDED and facts.ended is not None and facts.ended.code == 0


def is_through(seen: PodSnapshot, container: Container) -> bool:
    """May the containers after this init container start?"""
    facts = seen.facts.of(container)
    if not seen.pod.is_sidecar(container):
        return has_succeeded(facts)
    if facts.life is Life.RUNNING and has_started_up(container, facts):
        return True
    # A sidecar that was up and crashed is restarted without holding up what it let pass.
    return any(seen.facts.of(later).attempt >= 0 for later in seen.pod.spec.containers)


def has_started_up(container: Container, facts: ContainerFacts) -> bool:
    return container.startup_probe is None or facts.startup_passed


def _care_for(seen: PodSnapshot, container: Container) -> Iterator[PodAction]:
    facts = seen.facts.of(container)
    match facts.life:
        case Life.NONE:
            if _may_start(facts, seen.now):
                yield StartContainer(container.name, facts.attempt + 1)
        case Life.STARTING:
            return
        case Life.RUNNING:
            yield from _care_for_running(seen, container, facts)
        case Life.ENDED:
            again = facts.ended is not None and runs_again(seen.pod, container, facts.ended.code)
            if again and seen.now >= restart_at(facts) and _may_start(facts, seen.now):
                yield StartContainer(container.name, facts.attempt + 1)


def _may_start(facts: ContainerFacts, now: float) -> bool:
    return facts.image.step is Step.DONE and facts.start.may_begin(now)


def _care_for_running(
    seen: PodSnapshot, container: Container, facts: ContainerFacts
) -> Iterator[PodAction]:
    if facts.stopping is not None:
        if seen.now >= facts.stopping.deadline and not facts.stopping.killed:
            yield KillContainer(container.name)
    elif facts.sick:
        grace = facts.sick_grace
        if grace is None:
            grace = seen.pod.spec.termination_grace_period_seconds
        yield StopContainer(container.name, float(grace), facts.sick)


# ── the end ──────────────────────────────────────────────────────────────────────────────
def _plan_end(seen: PodSnapshot) -> PodPlan:
    """Stop everything in order; when nothing runs, remove the sandbox and, if the Pod was
    deleted, its object."""
    actions = list(_stops(seen, seen.pod.containers(), seen.grace))
    if _any_alive(seen, seen.pod.containers()):
        return PodPlan(tuple(actions), _wake(seen))
    return _plan_rest(seen)


def _plan_rest(seen: PodSnapshot) -> PodPlan:
    """The work is over: sidecars stop, the sandbox goes, a deleted Pod is let go."""
    actions = list(_stops(seen, seen.pod.containers(), seen.grace))
    if actions or _any_alive(seen, seen.pod.containers()):
        return PodPlan(tuple(actions), _wake(seen))
    if seen.facts.sandbox.step is Step.DONE:
        return PodPlan((KillSandbox(),))
    if seen.facts.sandbox.step is Step.UNDER_WAY:
        return PodPlan()  # being made or being killed: its end is told
    if seen.is_deleted:
        return PodPlan((FinishDeletion(),))
    return PodPlan()


def _stops(seen: PodSnapshot, containers: Iterable[Container], grace: float) -> Iterator[PodAction]:
    """Stop app and init containers first; each sidecar after those that started after it."""
    alive = [one for one in containers if _is_alive(seen.facts.of(one))]
    sidecars = [one for one in alive if seen.pod.is_sidecar(one)]
    others = [one for one in alive if one not in sidecars]
    began = seen.facts.terminating_since or seen.now
    for container in others or sidecars[-1:]:
        facts = seen.facts.of(container)
        if facts.stopping is None:
            left = began + grace - seen.now if seen.is_deleted else grace
            yield StopContainer(container.name, max(left, 0.0))
        elif _kill_is_due(seen, facts, began + grace):
            yield KillContainer(container.name)


def _kill_is_due(seen: PodSnapshot, facts: ContainerFacts, pod_deadline: float) -> bool:
    """The grace period may be shortened by a second deletion; it is never lengthened."""
    stopping = facts.stopping
    if stopping is None or stopping.killed:
        return False
    deadline = min(stopping.deadline, pod_deadline) if seen.is_deleted else stopping.deadline
    return seen.now >= deadline


def _is_alive(facts: ContainerFacts) -> bool:
    return facts.life in (Life.STARTING, Life.RUNNING)


def _any_alive(seen: PodSnapshot, containers: Iterable[Container]) -> bool:
    return any(_is_alive(seen.facts.of(container)) for container in containers)


# ── the next look ────────────────────────────────────────────────────────────────────────
def _wake(seen: PodSnapshot) -> float | None:
    """The next moment after now at which something is due."""
    due = [moment for moment in _moments(seen) if moment > seen.now]
    return min(due, default=None)


def _moments(seen: PodSnapshot) -> Iterator[float]:
    facts = seen.facts
    for task in (facts.volumes, facts.sandbox):
        if task.trouble is not None:
            yield task.trouble.retry_at
    if seen.pod.spec.active_deadline_seconds is not None:
        yield seen.accepted + seen.pod.spec.active_deadline_seconds
    if facts.terminating_since is not None and seen.is_deleted:
        yield facts.terminating_since + seen.grace
    for container in seen.pod.containers():
        known = facts.of(container)
        for task in (known.image, known.start):
            if task.trouble is not None:
                yield task.trouble.retry_at
        if known.stopping is not None:
            yield known.stopping.deadline
        if known.life is Life.ENDED:
            yield restart_at(known)
