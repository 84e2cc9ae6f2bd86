"""How long ago, in few letters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from manta.api.ages import age, short

MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (10 * MINUTE, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR + 5 * MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (2 * DAY + 3 * HOUR, "2d3h"),
        (8 * DAY, "8d"),
        (400 * DAY, "400d"),
        (800 * DAY, "2y70d"),
        (365 * 9 * DAY, "9y"),
    ],
)
def test_durations_are_short(seconds, text) -> None:
    assert short(seconds) == text


def test_an_age_is_the_time_since() -> None:
    now = datetime(2026, 11, 15, tzinfo=UTC)
    assert age(now - timedelta(hours=1), now) == "60m"
