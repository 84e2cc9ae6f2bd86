"""Days with generated activity: no cluster in use is suspended, every idle one is, in time.

`make idle` runs 1,000 days (`idle_at_length.py`).
"""

from __future__ import annotations

import pytest

from support.idle_days import simulate


@pytest.mark.parametrize("seed", range(12))
def test_no_cluster_in_use_is_suspended_and_every_idle_one_is_in_time(seed: int) -> None:
    report = simulate(seed, limits=40)
    assert report.wrong == []
    assert report.late == []
    assert report.suspended > 0, "nothing was ever idle: this says nothing"
    assert report.uses > report.suspended / 2


def test_the_idle_hours_that_are_counted_are_those_that_passed() -> None:
    lives = [simulate(seed, limits=40, faults=False) for seed in range(40, 60)]
    truth = sum(one.idle_hours for one in lives)
    counted = sum(one.counted_hours for one in lives)
    assert truth > 100
    assert abs(counted - truth) <= truth / 100
