"""Retention: nothing younger than asked goes, and what stays is what was asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from manta.history.layout import SessionKey
from manta.history.retention import Policy, StoredSession, expired

NOW = 1_000_000.0
SESSIONS = st.lists(
    st.builds(
        lambda number, namespace, size, newest: StoredSession(
            SessionKey(namespace, "rayjob", "train", f"session_{number}"), size, newest
        ),
        st.integers(0, 10**9),
        st.sampled_from(["a", "b"]),
        st.integers(0, 1000),
        st.floats(NOW - 10_000, NOW + 1000),  # clocks of writers may be ahead
    ),
    max_size=30,
    unique_by=lambda one: one.key,
)
POLICIES = st.builds(
    Policy,
    max_age=st.none() | st.floats(0, 10_000),
    max_bytes=st.none() | st.integers(0, 5000),
    keep_at_least=st.floats(0, 10_000),
)


@given(SESSIONS, POLICIES)
def test_nothing_younger_than_asked_goes(sessions: list[StoredSession], policy: Policy) -> None:
    for go in expired(sessions, policy, NOW):
        assert NOW - go.session.newest >= policy.keep_at_least
        assert policy.max_age is not None or policy.max_bytes is not None


@given(SESSIONS, POLICIES)
def test_what_stays_is_within_the_limits_or_protected(
    sessions: list[StoredSession], policy: Policy
) -> None:
    gone = {go.session.key for go in expired(sessions, policy, NOW)}
    for namespace in ("a", "b"):
        stays = [one for one in sessions if one.key not in gone and one.key.namespace == namespace]
        old = [one for one in stays if NOW - one.newest >= policy.keep_at_least]
        if policy.max_age is not None:
            assert all(NOW - one.newest <= policy.max_age for one in old)
        if policy.max_bytes is not None and any(one.size for one in old):
            assert sum(one.size for one in stays) <= policy.max_bytes


@given(SESSIONS, st.integers(0, 5000))
def test_no_session_goes_for_bytes_while_an_older_one_stays(
    sessions: list[StoredSession], limit: int
) -> None:
    gone = {go.session.key for go in expired(sessions, Policy(max_bytes=limit), NOW)}
    for one in sessions:
        older = [
            each
            for each in sessions
            if each.newest < one.newest and each.key.namespace == one.key.namespace
        ]
        if one.key in gone:
            assert all(each.key in gone for each in older)


@given(SESSIONS, POLICIES)
def test_applying_it_twice_removes_nothing_more(
    sessions: list[StoredSession], policy: Policy
) -> None:
    gone = {go.session.key for go in expired(sessions, policy, NOW)}
    assert expired([one for one in sessions if one.key not in gone], policy, NOW) == []
