"""Days with generated activity: no cluster in use is suspended, every idle one is, in time.

`make idle` runs 1,000 days (`idle_at_length.py`).
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random

import pytest

from manta.rules.idle import IdleLimit
from support.idle_days import Happening, Report, happenings, live, simulate
from support.scraped_days import ScrapedLife, increase


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


@pytest.mark.parametrize("hours_between_restarts", [10_000, 6], ids=["one operator", "restarts"])
def test_the_counters_only_grow_and_prometheus_counts_the_hours_that_passed(
    hours_between_restarts: int,
) -> None:
    """A change of state is noted afterwards, for a time that was scraped already."""
    lives = [_scraped(seed, hours_between_restarts) for seed in range(5)]
    for life in lives:
        for process in life.processes:
            for series in (process.used, process.idle):
                assert series == sorted(series)
    processes = [process for life in lives for process in life.processes]
    assert (len(processes) > len(lives)) == (hours_between_restarts < 100)
    for state in ("used", "idle"):
        truth = sum(getattr(one.report, f"{state}_hours") for one in lives)
        assert truth > 20
        counted = sum(increase(getattr(one, state)) for one in processes)
        assert abs(counted - truth) <= truth / 100, state


def _scraped(seed: int, hours_between_restarts: int) -> ScrapedLife:
    random, after = Random(seed), 1800.0
    limit = IdleLimit(timedelta(seconds=after), timedelta(minutes=10))
    life = ScrapedLife(random, limit, Report())
    coming = happenings(random, 60 * after, after, faults=False)
    pause = hours_between_restarts * 3600
    restarts = [Happening(at, "restart") for at in range(pause, int(coming[-1].at), pause)]
    asyncio.run(live(life, sorted([*coming, *restarts], key=lambda one: one.at)))
    return life
