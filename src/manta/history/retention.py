"""Which sessions go: those beyond an age, and the oldest of a namespace beyond a number of bytes. Pure.

A session's age is the time since its newest object. Nothing younger than `keep_at_least` goes, whatever else
is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from manta.history.layout import SessionKey


@dataclass(frozen=True, slots=True)
class StoredSession:
    key: SessionKey
    size: int
    newest: float
    """When its newest object was written, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Policy:
    max_age: float | None = None
    """Seconds; None: no limit."""
    max_bytes: int | None = None
    """The limit of each namespace; None: no limit."""
    keep_at_least: float = 0.0
    """Seconds."""


@dataclass(frozen=True, slots=True)
class Expired:
    session: StoredSession
    why: str


def expired(sessions: Iterable[StoredSession], policy: Policy, now: float) -> list[Expired]:
    """The sessions that go, oldest first."""
    by_namespace: dict[str, list[StoredSession]] = {}
    for one in sessions:
        by_namespace.setdefault(one.key.namespace, []).append(one)
    found = [go for ours in by_namespace.values() for go in _of_namespace(ours, policy, now)]
    return sorted(found, key=lambda go: (go.session.newest, go.session.key))


def _of_namespace(sessions: Sequence[StoredSession], policy: Policy, now: float) -> list[Expired]:
    left = sum(one.size for one in sessions)
    found: list[Expired] = []
    for one in sorted(sessions, key=lambda each: (each.newest, each.key)):
        age = now - one.newest
        if age < policy.keep_at_least:
            break  # the rest is younger
        if policy.max_age is not None and age > policy.max_age:
            found.append(Expired(one, f"older than {policy.max_age:.0f} s"))
        elif policy.max_bytes is not None and left > policy.max_bytes:
            found.append(Expired(one, f"the namespace has more than {policy.max_bytes} bytes"))
        else:
            continue
        left -= one.size
    return found
