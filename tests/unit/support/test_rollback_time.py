"""The time of a rollback, from the lines of a caller."""

from __future__ import annotations

from support.rollback_time import Limit, Seen, seconds_to_roll_back

LIMIT = Limit(share=0.02, window=30, min_requests=25)


def lines(*counts: tuple[float, int, int]) -> list[Seen]:
    return [Seen(at, requests, errors) for at, requests, errors in counts]


def test_from_the_errors_above_the_limit_to_the_last_request() -> None:
    found = lines((0, 0, 0), (1, 20, 5), (2, 40, 5), (5, 90, 6), (9, 100, 6), (10, 100, 6))
    assert seconds_to_roll_back(found, LIMIT) == 7


def test_lines_that_come_late_are_timed_by_their_clock() -> None:
    found = lines((0, 0, 0), (10, 100, 5), (31, 120, 5))
    assert seconds_to_roll_back(found, LIMIT) == 21


def test_errors_that_are_older_than_the_window_do_not_count() -> None:
    found = lines((0, 0, 0), (1, 20, 1), (40, 200, 1), (41, 400, 1))
    assert seconds_to_roll_back(found, LIMIT) is None


def test_errors_below_the_limit_are_no_rollback() -> None:
    assert seconds_to_roll_back(lines((0, 0, 0), (1, 100, 1), (2, 200, 2)), LIMIT) is None
