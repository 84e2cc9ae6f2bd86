"""The checker of histories, with planted faults: a checker that cannot fail shows nothing."""

from __future__ import annotations

import pytest

from support.histories import Call, Event, Held, History, Session, Snapshot, Watch, linearizability


def made(value: str, begin: float, end: float, revision: int, key: str = "a") -> Call:
    return Call("create", key, begin, end, "ok", value, revision)


def put(value: str, begin: float, end: float, revision: int, expected: int = 0) -> Call:
    return Call("update", "a", begin, end, "ok", value, revision, expected)


def read(value: str, begin: float, end: float, revision: int) -> Call:
    return Call("get", "a", begin, end, "ok", value, revision)


def nothing(begin: float, end: float) -> Call:
    return Call("get", "a", begin, end, "absent")


def gone(begin: float, end: float) -> Call:
    return Call("delete", "a", begin, end, "ok")


def lost(kind: str, value: str, begin: float, expected: int = 0) -> Call:
    """A call that got no answer."""
    return Call(kind, "a", begin, float("inf"), "unknown", value, expected=expected)  # type: ignore[arg-type]


GOOD = [
    pytest.param([nothing(0, 1), made("x", 2, 3, 5), read("x", 4, 5, 5)], id="in a row"),
    pytest.param([made("x", 0, 10, 5), nothing(1, 2), read("x", 3, 4, 5)], id="concurrent"),
    pytest.param(
        [made("x", 0, 1, 5), lost("update", "y", 2), read("x", 3, 4, 5), read("y", 5, 6, 7)],
        id="an unanswered write may happen late",
    ),
    pytest.param(
        [made("x", 0, 1, 5), lost("update", "y", 2), read("x", 30, 40, 5)],
        id="an unanswered write may never happen",
    ),
    pytest.param(
        [made("x", 0, 1, 5), lost("delete", "", 2), Call("update", "a", 3, 4, "absent")],
        id="an unanswered deletion explains a 404",
    ),
    pytest.param(
        [lost("create", "x", 0), Call("create", "a", 1, 2, "exists", "y"), gone(3, 4)],
        id="an unanswered creation explains what nobody read",
    ),
    pytest.param(
        [
            made("x", 0, 1, 5),
            put("y", 2, 3, 6, 5),
            Call("update", "a", 2, 9, "conflict", "z", 0, 5),
        ],
        id="one of two conditional writers wins",
    ),
    pytest.param(
        [lost("create", "x", 0), put("y", 1, 2, 9, expected=8), read("y", 3, 4, 9)],
        id="a condition teaches the revision of an unanswered write",
    ),
]

BAD = [
    pytest.param([made("x", 0, 1, 5), nothing(2, 3)], id="a lost write"),
    pytest.param([made("x", 0, 1, 5), put("y", 2, 3, 6), read("x", 4, 5, 5)], id="a stale read"),
    pytest.param([made("x", 0, 1, 5), gone(2, 3), read("x", 4, 5, 5)], id="back from the dead"),
    pytest.param([made("x", 0, 1, 5), made("y", 2, 3, 6)], id="created twice"),
    pytest.param([read("x", 0, 1, 5)], id="read out of nothing"),
    pytest.param([made("x", 0, 1, 5), put("y", 2, 3, 4)], id="a smaller revision"),
    pytest.param(
        [made("x", 0, 1, 5), put("y", 2, 3, 6, 5), put("z", 4, 5, 7, 5)],
        id="two conditional writers win",
    ),
    pytest.param(
        [made("x", 0, 1, 5), lost("update", "y", 2), read("y", 3, 4, 7), read("x", 5, 6, 5)],
        id="an unanswered write that was seen and then lost",
    ),
    pytest.param([made("x", 0, 1, 5), read("x", 2, 3, 6)], id="another revision of the same"),
]


@pytest.mark.parametrize("calls", GOOD)
def test_an_order_is_found_where_there_is_one(calls: list[Call]) -> None:
    assert linearizability(calls) == []


@pytest.mark.parametrize("calls", BAD)
def test_no_order_is_found_where_there_is_none(calls: list[Call]) -> None:
    assert len(linearizability(calls)) == 1


def test_keys_are_judged_apart() -> None:
    calls = [made("x", 0, 1, 5), made("y", 2, 3, 6, key="b"), nothing(4, 5)]
    [said] = linearizability(calls)
    assert "for a," in said


# ── whole histories ──────────────────────────────────────────────────────────────────────
CALLS = [made("x", 0, 1, 5), put("y", 2, 3, 6), gone(4, 5), made("z", 6, 7, 8)]
ADDED = Event("ADDED", 5, "a", "x")
CHANGED = Event("MODIFIED", 6, "a", "y")
DELETED = Event("DELETED", 7, "a", "y")
AGAIN = Event("ADDED", 8, "a", "z")
ALL = [ADDED, CHANGED, DELETED, AGAIN]


def seen(*events: Event, since: int = 4, name: str = "w") -> Watch:
    return Watch(name, [Session(since, {}, list(events))])


def history(*watches: Watch, calls: list[Call] = CALLS) -> History:
    final = Snapshot(8, {"a": Held("z", 8)}, 8, 9)
    return History(list(calls), [final], list(watches))


def test_a_complete_watch_is_well() -> None:
    assert history(seen(*ALL)).violations() == []


def test_a_watch_that_resumes_is_well() -> None:
    parts = Watch("w", [Session(4, {}, [ADDED, CHANGED]), Session(6, None, [DELETED, AGAIN])])
    assert history(seen(*ALL), parts).violations() == []


def test_a_watch_that_lists_again_is_well() -> None:
    parts = Watch("w", [Session(4, {}, [ADDED]), Session(7, {}, [AGAIN])])
    assert history(seen(*ALL), parts).violations() == []


def test_bookmarks_between_events_are_well() -> None:
    mark = Event("BOOKMARK", 6)
    assert history(seen(ADDED, CHANGED, mark, mark, DELETED, AGAIN)).violations() == []


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([ADDED, CHANGED, CHANGED, DELETED, AGAIN], "came after"),
        ([ADDED, DELETED, CHANGED, AGAIN], "came after"),
        ([ADDED, DELETED, AGAIN], "was missed"),
        ([ADDED, CHANGED, AGAIN], "was missed"),
        ([CHANGED, DELETED, AGAIN], "was missed"),
        ([ADDED, CHANGED, Event("DELETED", 7, "a", "x"), AGAIN], "elsewhere"),
        ([ADDED, Event("BOOKMARK", 6), CHANGED, DELETED, AGAIN], "came after"),
        ([ADDED, Event("BOOKMARK", 8)], "was missed"),
    ],
    ids=[
        "doubled",
        "out of order",
        "a change missed",
        "a deletion missed",
        "the first missed",
        "another object deleted",
        "a bookmark ahead of an event",
        "a bookmark ahead of everything",
    ],
)
def test_a_planted_fault_in_a_watch_is_found(events: list[Event], said: str) -> None:
    found = history(seen(*ALL), seen(*events, name="faulty")).violations()
    assert any(said in one and "faulty" in one for one in found), found


def test_a_write_that_no_watch_saw_is_found() -> None:
    found = history(seen(ADDED, DELETED, AGAIN)).violations()
    assert any("was missed" in one for one in found)


def test_an_event_doubled_over_two_connections_is_found() -> None:
    parts = Watch("w", [Session(4, {}, [ADDED, CHANGED]), Session(6, None, [CHANGED])])
    assert any("came after" in one for one in history(seen(*ALL), parts).violations())


def test_a_gap_between_two_connections_is_found() -> None:
    parts = Watch("w", [Session(4, {}, [ADDED, CHANGED]), Session(6, None, [AGAIN])])
    assert any("was missed" in one for one in history(seen(*ALL), parts).violations())


def test_a_revision_with_two_meanings_is_found() -> None:
    calls = [*CALLS, made("other", 8, 9, 8, key="b")]
    found = history(seen(*ALL), calls=calls).violations()
    assert any("revision 8 is" in one for one in found)


def test_a_revision_that_goes_back_is_found() -> None:
    calls = [*CALLS, made("late", 10, 11, 3, key="b")]
    found = history(seen(*ALL), calls=calls).violations()
    assert any("8 had been seen before it began" in one for one in found)


def test_a_list_that_is_no_moment_is_found() -> None:
    torn = History(
        [*CALLS, made("b", 1, 2, 9, key="b")],
        [Snapshot(6, {"a": Held("y", 6)}, 2, 20), Snapshot(9, {"a": Held("z", 8)}, 2, 20)],
        [seen(*ALL, Event("ADDED", 9, "b", "b"))],
    )
    assert any("the list at 9" in one for one in torn.violations())
