"""Histories of concurrent clients, and what makes one wrong.

A history is what clients saw: calls with their begin, end and answer, and the events of watches.
The checkers know nothing of the server. They answer with sentences, none when all is well:

- `linearizability(calls)`: per key, is there one order of calls, each taking effect between its
  begin and its end, that explains every answer? A call without an answer may have happened, at
  any time after its begin, or never.
- `revisions(calls, watches)`: one revision means one write, and whoever writes after having seen
  a revision gets a larger one, restarts or not.
- `watching(calls, watches)`: events are ordered and unique, none is missing, bookmarks never run
  ahead, and all watches tell the same story, which is also the story of the lists.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

Kind = Literal["create", "get", "update", "delete"]
Outcome = Literal["ok", "exists", "absent", "conflict", "unknown"]
UNANSWERED = math.inf
UNKNOWN_REVISION = 0
GONE = "(deleted)"


@dataclass(frozen=True, slots=True)
class Call:
    """One call by one client. Written values are unique in a history."""

    kind: Kind
    key: str
    begin: float
    end: float
    outcome: Outcome
    value: str = ""
    """Written by create and update, read by get."""
    revision: int = UNKNOWN_REVISION
    """Of the object in the answer; a deletion tells none."""
    expected: int = UNKNOWN_REVISION
    """The revision that the writer made a condition."""
    client: int = 0

    def __str__(self) -> str:
        said = f"{self.kind} {self.key}"
        said += f" {self.value!r}" if self.value else ""
        said += f" if at {self.expected}" if self.expected else ""
        said += f" -> {self.outcome}"
        return said + (f" at {self.revision}" if self.revision else "")


class Held(NamedTuple):
    """A value under a key."""

    value: str
    revision: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole list, read at one revision."""

    revision: int
    objects: Mapping[str, Held]
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Event:
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    revision: int
    key: str = ""
    value: str = ""

    def __str__(self) -> str:
        return f"{self.type} {self.key} {self.value!r} at {self.revision}"


@dataclass(slots=True)
class Session:
    """One connection of a watch. With a snapshot it starts again, without one it continues."""

    since: int
    snapshot: Mapping[str, Held] | None = None
    events: list[Event] = field(default_factory=list)


@dataclass(slots=True)
class Watch:
    name: str
    sessions: list[Session] = field(default_factory=list)


@dataclass(slots=True)
class History:
    calls: list[Call] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)

    def violations(self) -> list[str]:
        log = merged(self.watches)
        return [
            *linearizability([*self.calls, *_reads(self.snapshots, self.calls)]),
            *revisions(self.calls, self.snapshots, self.watches),
            *watching(self.calls, self.watches),
            *snapshots(self.snapshots, self.watches, log),
        ]


def _reads(snapshots: Sequence[Snapshot], calls: Sequence[Call]) -> Iterator[Call]:
    """A list is a read of every key at once; whether it is one moment, `snapshots` looks at."""
    keys = {call.key for call in calls}
    for snapshot in snapshots:
        for key in keys:
            held = snapshot.objects.get(key)
            if held is None:
                yield Call("get", key, snapshot.begin, snapshot.end, "absent")
            else:
                yield Call("get", key, snapshot.begin, snapshot.end, "ok", *held)


# ── one order for all calls on a key ─────────────────────────────────────────────────────
class _State(NamedTuple):
    """What a key holds. `floor`: the largest revision that it is known to have had."""

    present: bool = False
    value: str = ""
    revision: int = UNKNOWN_REVISION
    floor: int = 0

    def may_be_at(self, revision: int) -> bool:
        if self.revision == UNKNOWN_REVISION:
            return revision > self.floor
        return revision == self.revision


def _after(state: _State, call: Call) -> _State | None:
    """The state after a call, or None: this answer cannot be given in this state."""
    if call.outcome == "unknown":
        return _after_unknown(state, call)
    if call.outcome == "absent":
        return None if state.present else state
    if call.outcome == "exists":
        return state if state.present else None
    if call.outcome == "conflict":
        return state if state.present and state.revision != call.expected else None
    if state.present == (call.kind == "create"):
        return None
    if call.kind == "get":
        same = state.value == call.value and state.may_be_at(call.revision)
        return _State(True, call.value, call.revision, call.revision) if same else None
    if call.expected and not state.may_be_at(call.expected):
        return None
    if call.kind == "delete":
        return _State(floor=max(state.floor, call.expected))
    if call.revision <= max(state.floor, call.expected):
        return None
    return _State(True, call.value, call.revision, call.revision)


def _after_unknown(state: _State, call: Call) -> _State | None:
    """What the call does if it happens now and does something; None if it would do nothing."""
    if state.present == (call.kind == "create"):
        return None
    if call.expected and not state.may_be_at(call.expected):
        return None
    floor = max(state.floor, call.expected)
    if call.kind == "delete":
        return _State(floor=floor)
    return _State(True, call.value, UNKNOWN_REVISION, floor)


class _Place(NamedTuple):
    """How far a search has come: what has taken effect, and what the key holds."""

    first: int
    """All answered calls before this one have taken effect."""
    beyond: frozenset[int]
    """The ones after it that have, too."""
    happened: frozenset[int]
    """The unanswered calls that have."""
    state: _State


class _Search:
    """Depth first, each place visited once (Wing and Gong; the memory is Lowe's)."""

    def __init__(self, calls: Iterable[Call]) -> None:
        ordered = sorted(calls, key=lambda call: call.begin)
        self.answered = [call for call in ordered if call.outcome != "unknown"]
        self.unanswered = [
            call for call in ordered if call.outcome == "unknown" and call.kind != "get"
        ]
        self.furthest = 0

    def explained(self) -> bool:
        start = _Place(0, frozenset(), frozenset(), _State())
        seen = {start}
        stack = [self._next(start)]
        while stack:
            place = next(stack[-1], None)
            if place is None:
                stack.pop()
            elif place.first == len(self.answered):
                return True
            elif place not in seen:
                seen.add(place)
                self.furthest = max(self.furthest, place.first)
                stack.append(self._next(place))
        return not self.answered

    def _next(self, place: _Place) -> Iterator[_Place]:
        latest = UNANSWERED
        index = place.first
        while index < len(self.answered) and self.answered[index].begin <= latest:
            if index not in place.beyond:
                call = self.answered[index]
                latest = min(latest, call.end)
                state = _after(place.state, call)
                if state is not None:
                    yield self._moved(place, index, state)
            index += 1
        for number, call in enumerate(self.unanswered):
            if number not in place.happened and call.begin <= latest:
                state = _after(place.state, call)
                if state is not None:
                    yield place._replace(happened=place.happened | {number}, state=state)

    def _moved(self, place: _Place, index: int, state: _State) -> _Place:
        beyond = set(place.beyond)
        beyond.add(index)
        first = place.first
        while first in beyond:
            beyond.discard(first)
            first += 1
        return _Place(first, frozenset(beyond), place.happened, state)


def linearizability(calls: Iterable[Call]) -> list[str]:
    by_key: dict[str, list[Call]] = {}
    for call in calls:
        by_key.setdefault(call.key, []).append(call)
    found = []
    for key, its_calls in sorted(by_key.items()):
        search = _Search(its_calls)
        if not search.explained():
            around = search.answered[max(0, search.furthest - 5) : search.furthest + 6]
            said = "; ".join(str(call) for call in around)
            found.append(f"no order explains the answers for {key}, near: {said}")
    return found


# ── revisions ────────────────────────────────────────────────────────────────────────────
def revisions(
    calls: Sequence[Call], snapshots: Sequence[Snapshot], watches: Sequence[Watch]
) -> list[str]:
    return [*_one_meaning(calls, snapshots, watches), *_never_back(calls, snapshots)]


def _one_meaning(
    calls: Sequence[Call], snapshots: Sequence[Snapshot], watches: Sequence[Watch]
) -> Iterator[str]:
    """One revision is one value under one key, whichever client saw it."""
    known: dict[int, tuple[str, str]] = {}
    seen: list[tuple[int, str, str]] = [
        (call.revision, call.key, call.value) for call in calls if call.revision
    ]
    for snapshot in snapshots:
        seen += [(held.revision, key, held.value) for key, held in snapshot.objects.items()]
    for watch in watches:
        for session in watch.sessions:
            seen += [
                (event.revision, event.key, event.value if event.type != "DELETED" else GONE)
                for event in session.events
                if event.type != "BOOKMARK"
            ]
    for revision, key, value in seen:
        if known.setdefault(revision, (key, value)) != (key, value):
            yield f"revision {revision} is {known[revision]} and also {(key, value)}"


def _never_back(calls: Sequence[Call], snapshots: Sequence[Snapshot]) -> Iterator[str]:
    """A write begun after a revision was seen gets a larger one; a list is never older."""
    seen = sorted(
        [(call.end, call.revision) for call in calls if call.revision]
        + [(snapshot.end, snapshot.revision) for snapshot in snapshots]
    )
    writes = [call for call in calls if call.revision and call.kind in ("create", "update")]
    later = sorted(
        [(call.begin, call.revision, True, str(call)) for call in writes]
        + [(one.begin, one.revision, False, f"list at {one.revision}") for one in snapshots]
    )
    largest, next_seen = 0, 0
    for begin, revision, is_write, said in later:
        while next_seen < len(seen) and seen[next_seen][0] < begin:
            largest = max(largest, seen[next_seen][1])
            next_seen += 1
        if revision < largest or (is_write and revision == largest):
            yield f"{said}, but {largest} had been seen before it began"


# ── watches ──────────────────────────────────────────────────────────────────────────────
def watching(calls: Sequence[Call], watches: Sequence[Watch]) -> list[str]:
    found: list[str] = []
    log = merged(watches)
    for call in calls:
        if call.outcome == "ok" and call.kind in ("create", "update") and call.revision:
            log.setdefault(
                call.revision,
                Event(
                    "ADDED" if call.kind == "create" else "MODIFIED",
                    call.revision,
                    call.key,
                    call.value,
                ),
            )
    for watch in watches:
        found += _ordered(watch)
        found += _complete(watch, log)
    return found


def merged(watches: Sequence[Watch]) -> dict[int, Event]:
    """Every event that any watch saw live."""
    log: dict[int, Event] = {}
    for watch in watches:
        for session in watch.sessions:
            for event in session.events:
                if event.type != "BOOKMARK":
                    log.setdefault(event.revision, event)
    return log


def _ordered(watch: Watch) -> Iterator[str]:
    """In a growing order, each once, and each possible after those before it."""
    state: dict[str, str] = {}
    position = 0
    for session in watch.sessions:
        if session.snapshot is not None:
            state = {key: held.value for key, held in session.snapshot.items()}
            position = session.since
        for event in session.events:
            late = event.revision < position
            if late or (event.revision == position and event.type != "BOOKMARK"):
                yield f"{watch.name}: {event} came after {position}"
            position = max(position, event.revision)
            yield from _possible(watch.name, state, event)


def _possible(name: str, state: dict[str, str], event: Event) -> Iterator[str]:
    if event.type == "BOOKMARK":
        return
    if (event.type == "ADDED") == (event.key in state):
        yield f"{name}: {event}, but it held {state.get(event.key)!r} before"
    if event.type == "DELETED":
        if state.get(event.key, event.value) != event.value:
            yield f"{name}: {event}, but it held {state[event.key]!r} before"
        state.pop(event.key, None)
    else:
        state[event.key] = event.value


def _covered(watch: Watch) -> Iterator[tuple[int, int]]:
    """The spans of revisions (after, up to) of which the watch has promised every event."""
    after = position = 0
    for session in watch.sessions:
        if session.snapshot is not None:
            if position > after:
                yield after, position
            after = position = session.since
        for event in session.events:
            position = max(position, event.revision)
    if position > after:
        yield after, position


def _complete(watch: Watch, log: Mapping[int, Event]) -> Iterator[str]:
    """Nothing is missing in the spans that it covers, bookmarks included, and all is the same."""
    delivered = {
        event.revision: event
        for session in watch.sessions
        for event in session.events
        if event.type != "BOOKMARK"
    }
    for after, up_to in _covered(watch):
        for revision in sorted(log):
            if not after < revision <= up_to:
                continue
            event = delivered.get(revision)
            if event is None:
                yield f"{watch.name}: {log[revision]} was missed"
            elif event != log[revision]:
                yield f"{watch.name}: {event}, elsewhere {log[revision]}"


def snapshots(
    lists: Sequence[Snapshot], watches: Sequence[Watch], log: Mapping[int, Event]
) -> list[str]:
    """Each list is the state at its revision, as the events tell it."""
    taken = [*lists]
    for watch in watches:
        taken += [
            Snapshot(session.since, session.snapshot, 0, 0)
            for session in watch.sessions
            if session.snapshot is not None
        ]
    spans = [span for watch in watches for span in _covered(watch)]
    if not spans:
        return []
    start, end = max(spans, key=lambda span: span[1] - span[0])
    taken = sorted((one for one in taken if start <= one.revision <= end), key=lambda s: s.revision)
    found = []
    for earlier, later in pairwise(taken):
        state = dict(earlier.objects)
        for revision in sorted(r for r in log if earlier.revision < r <= later.revision):
            event = log[revision]
            if event.type == "DELETED":
                state.pop(event.key, None)
            else:
                state[event.key] = Held(event.value, revision)
        if state != dict(later.objects):
            found.append(
                f"the list at {later.revision} is {dict(later.objects)}, by the events {state}"
            )
    return found
