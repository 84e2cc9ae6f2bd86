"""How many actions are tried at once, by what the server makes of it."""

from __future__ import annotations

from collections.abc import Callable

from manta.reconcile.pace import CONTENT, MOST_AT_ONCE, Pace


def walk(pace: Pace, batches: int, seconds: Callable[[int], float]) -> list[int]:
    """The widths of so many batches on a server that takes `seconds` for so many at once."""
    widths = []
    for _ in range(batches):
        width = pace.at_once(beside_small=False)
        widths.append(width)
        pace.went_well(width, seconds(width))
    return widths


def ample(_: int) -> float:
    """A server that answers as fast, however many ask."""
    return 0.01


def serial(width: int) -> float:
    """A server that does one thing at a time."""
    return 0.01 * width


def two_cores(width: int) -> float:
    return 0.01 * max(1.0, width / 2)


def test_a_server_with_room_is_asked_for_as_many_as_there_may_be() -> None:
    widths = walk(Pace(is_large=True), 8, ample)
    assert widths == [1, 2, 4, 8, *[MOST_AT_ONCE] * 4]


def test_a_server_that_is_not_faster_for_it_gets_no_longer_queue() -> None:
    assert walk(Pace(is_large=True), 8, serial) == [1, 2, 1, 1, 1, 1, 1, 1]
    assert walk(Pace(is_large=True), 8, two_cores) == [1, 2, 4, 2, 2, 2, 2, 2]


def test_a_server_that_was_busy_is_tried_again() -> None:
    pace = Pace(is_large=True)
    busy = walk(pace, 4, two_cores)
    free = walk(pace, CONTENT + 4, ample)
    assert busy[-1] == 2
    assert free[-1] == MOST_AT_ONCE


def test_a_small_plan_is_not_held_back() -> None:
    assert walk(Pace(is_large=False), 4, serial) == [1, 2, 4, 8]


def test_after_a_failure_the_next_stage_begins_slowly() -> None:
    pace = Pace(is_large=True)
    walk(pace, 6, ample)
    pace.failed()
    assert walk(pace, 3, ample) == [1, 2, 4]


def test_no_time_at_all_is_fast() -> None:
    assert walk(Pace(is_large=True), 5, lambda _: 0.0) == [1, 2, 4, 8, MOST_AT_ONCE]
