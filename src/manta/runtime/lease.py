"""Leader election: the timing, and the decision whether to take or renew the lease. Pure.

Rule 1: another's lease has expired when *we* saw no change of it for its whole duration, by our monotonic
        clock. The wall clock of its holder does not count.
Rule 2: every write carries the version that was read, so of two processes that take the lease one fails.
Rule 3: a holder may write until `renew_deadline` after it *began* its last successful renewal. No other
        process can take the lease before `duration` after that; the difference is for requests that are still in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Timing:
    """In seconds; the defaults of Kubernetes' own components and of KubeRay."""

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
    """What a candidate remembers between two attempts."""

    version: str = ""
    changed_at: float = 0.0
    """When (monotonic) this version was first read."""


@dataclass(frozen=True, slots=True)
class WriteLease:
    """Write this lease: create it if `version` is empty, else replace that version."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Watch:
    """Another process holds it; it cannot expire before `seconds` have passed."""

    holder: str
    seconds: float


Decision = WriteLease | Watch


def step(
    lease: Lease | None, memory: Memory, me: str, *, now: datetime, monotonic: float, timing: Timing
) -> tuple[Decision, Memory]:
    """What to do about the lease as read (None: it does not exist), and what to remember."""
    if lease is None:
        return WriteLease(Lease(me, timing.duration, now, now, 0, "")), Memory()
    if lease.version != memory.version:
        memory = Memory(lease.version, monotonic)
    if lease.holder == me:
        renewed = replace(lease, renewed=now, duration=timing.duration)
        return WriteLease(renewed), memory
    left = memory.changed_at + lease.duration - monotonic
    if lease.holder and left > 0:
        return Watch(lease.holder, left), memory
    taken = Lease(me, timing.duration, now, now, lease.transitions + 1, lease.version)
    return WriteLease(taken), memory


def released(lease: Lease, now: datetime) -> Lease:
    """The lease without a holder, so that the next process need not wait."""
    return replace(lease, holder="", renewed=now, duration=1.0)


def write_until(began: float, timing: Timing) -> float:
    """Until when (monotonic) the holder may write, after a renewal that began at `began`."""
    return began + timing.renew_deadline
