"""Leader election as a decision, and as a game between replicas."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.runtime.lease import Lease, Memory, Timing, Watch, WriteLease, step, write_until

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIMING = Timing()


def a_lease(holder: str, version: str = "1") -> Lease:
    return Lease(holder, 15.0, NOW, NOW, 3, version)


def decide(lease: Lease | None, memory: Memory, at: float) -> tuple[WriteLease | Watch, Memory]:
    return step(lease, memory, "me", now=NOW, monotonic=at, timing=TIMING)


def test_a_lease_that_does_not_exist_is_created() -> None:
    decision, _ = decide(None, Memory(), 0)
    assert isinstance(decision, WriteLease)
    assert decision.lease.holder == "me"
    assert decision.lease.version == ""


def test_our_own_lease_is_renewed_and_keeps_its_history() -> None:
    decision, _ = decide(a_lease("me"), Memory(), 0)
    assert isinstance(decision, WriteLease)
    assert decision.lease.transitions == 3
    assert decision.lease.version == "1"


def test_anothers_lease_is_left_alone_until_we_ourselves_saw_it_expire() -> None:
    decision, memory = decide(a_lease("other"), Memory(), 100)
    assert decision == Watch("other", 15.0)
    decision, memory = decide(a_lease("other"), memory, 114)
    assert isinstance(decision, Watch)
    decision, memory = decide(a_lease("other"), memory, 115)
    assert isinstance(decision, WriteLease)
    assert decision.lease.transitions == 4


def test_a_renewal_by_its_holder_starts_the_wait_again() -> None:
    _, memory = decide(a_lease("other", "1"), Memory(), 100)
    decision, memory = decide(a_lease("other", "2"), memory, 114)
    decision, _ = decide(a_lease("other", "2"), memory, 120)
    assert decision == Watch("other", 9.0)


def test_a_released_lease_is_taken_at_once() -> None:
    decision, _ = decide(a_lease(""), Memory(), 0)
    assert isinstance(decision, WriteLease)


@pytest.mark.parametrize(
    ("retry", "renew_deadline", "duration"), [(0, 10, 15), (10, 10, 15), (2, 10, 10)]
)
def test_a_timing_that_could_let_two_write_is_refused(
    retry: float, renew_deadline: float, duration: float
) -> None:
    with pytest.raises(ValueError, match="renew deadline"):
        Timing(duration=duration, renew_deadline=renew_deadline, retry=retry)


@dataclass
class Server:
    """The lease with its version check, and nothing else."""

    lease: Lease | None = None
    version: int = 0

    def write(self, wanted: Lease) -> bool:
        held = self.lease.version if self.lease else ""
        if wanted.version != held:
            return False
        self.version += 1
        self.lease = replace(wanted, version=str(self.version))
        return True


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.floats(0.1, 12.0),
        st.sampled_from(["ok", "lost request", "lost reply"]),
    ),
    max_size=60,
)


@given(MOVES)
def test_no_two_replicas_may_write_at_the_same_time(
    moves: list[tuple[str, float, str]],
) -> None:
    """Whoever looks when, whatever is lost: the times in which each may write never overlap."""
    server, time = Server(), 0.0
    memories = dict.fromkeys("abc", Memory())
    may_write: dict[str, list[tuple[float, float]]] = {name: [] for name in "abc"}
    for who, passed, fate in moves:
        time += passed
        decision, memories[who] = step(
            server.lease, memories[who], who, now=NOW, monotonic=time, timing=TIMING
        )
        if isinstance(decision, WriteLease) and fate != "lost request":
            applied = server.write(decision.lease)
            if applied and fate == "ok":
                may_write[who].append((time, write_until(time, TIMING)))
    for one in "abc":
        for other in "abc":
            if one < other:
                assert not _overlap(may_write[one], may_write[other])


def _overlap(first: list[tuple[float, float]], second: list[tuple[float, float]]) -> bool:
    return any(a < d and c < b for a, b in first for c, d in second)
