"""Events of two groups, one form in the store."""

from __future__ import annotations

from manta.localplane.apiserver.events import from_stored, to_stored

EVENT = {
    "metadata": {"name": "e"},
    "eventTime": "2026-11-15T08:00:00.000000Z",
    "regarding": {"kind": "Pod", "name": "p"},
    "note": "text",
    "reason": "R",
    "type": "Normal",
    "reportingController": "c",
    "reportingInstance": "i",
    "series": {"count": 3},
}


def test_the_old_form_has_the_old_names() -> None:
    stored = to_stored(EVENT)
    assert stored["involvedObject"] == EVENT["regarding"]
    assert (stored["message"], stored["reportingComponent"]) == ("text", "c")
    assert not {"regarding", "note", "reportingController"} & stored.keys()


def test_nothing_is_lost_there_and_back() -> None:
    back = from_stored(to_stored(EVENT))
    assert EVENT.items() <= back.items()


def test_the_count_of_an_old_event_is_shown_as_deprecated() -> None:
    shown = from_stored({"metadata": {}, "count": 4, "source": {"component": "c"}})
    assert (shown["deprecatedCount"], shown["deprecatedSource"]) == (4, {"component": "c"})
    assert shown["eventTime"] is None
