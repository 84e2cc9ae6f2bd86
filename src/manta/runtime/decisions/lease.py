"""Leader election, decided: what to do about the lease, given what was seen of it.

Rule 1: another's lease is judged only by our own monotonic clock. It has expired when *we* saw
        no change of it for its whole duration; what its holder's wall clock wrote is for people.
Rule 2: every write carries the version that was read, so of two takers one fails.
Rule 3: a holder may write until `renew_deadline` after it *began* its last successful renewal.
        Nobody can take the lease before `duration` after that, and `duration` is longer: the
        rest is left for requests that are still on their way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds; the same numbers as Kubernetes' own components and KubeRay."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew_deadline < self.duration:
            raise ValueError("a lease needs 0 < retry < renew deadline < duration")


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease as it is on the server."""

    holder: str
    duration: float
    acquired: datetime | None
    renewed: datetime | None
    transitions: int
    version: str


@dataclass(frozen=True, slots=True)
class Memory:
    """What a candidate remembers between two looks."""

    version: str = ""
    changed_at: float = 0.0
    """When (monotonic) we first saw the lease in this version."""


@dataclass(frozen=True, slots=True)
class Take:
    """Write this lease: create it when `version` is empty, else replace that very version."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Watch:
    """Another holds it; it can expire no sooner than in so many seconds."""

    holder: str
    seconds: float


Decision = Take | Watch


def step(  # the six things that the decision hangs on
    lease: Lease | None,
    memory: Memory,
    me: str,
    *,
    now: datetime,
    monotonic: float,
    timing: Timing,
) -> tuple[Decision, Memory]:
    """Decide what a look at the lease calls for."""
    if lease is None:
        return Take(Lease(me, timing.duration, now, now, 0, "")), Memory()
    if lease.version != memory.version:
        memory = Memory(lease.version, monotonic)
    if lease.holder == me:
        renewed = replace(lease, renewed=now, duration=timing.duration)
        return Take(renewed), memory
    left = memory.changed_at + lease.duration - monotonic
    if lease.holder and left > 0:
        return Watch(lease.holder, left), memory
    taken = Lease(me, timing.duration, now, now, lease.transitions + 1, lease.version)
    return Take(taken), memory


def released(lease: Lease, now: datetime) -> Lease:
    """The lease as a holder leaves it behind, so that the next need not wait."""
    return replace(lease, holder="", renewed=now, duration=1.0)


def write_until(began: float, timing: Timing) -> float:
    """Until when (monotonic) the holder may write, after a renewal that it began at `began`."""
    return began + timing.renew_deadline
