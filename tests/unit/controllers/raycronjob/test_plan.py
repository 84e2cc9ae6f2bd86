"""What a RayCronJob wants."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from manta.api.ray.names import ANNOTATION_FAILED_JOBS_LIMIT, ANNOTATION_SUCCESSFUL_JOBS_LIMIT
from manta.api.ray.resources import RAY_JOBS
from manta.controllers.raycronjob.events import Cause
from manta.controllers.raycronjob.plan import plan
from manta.reconcile.actions import Create, Delete
from manta.reconcile.plan import NOTHING
from manta.rules.settings import Settings
from support.raycronjob import a_child, a_cron, seen

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def created(snapshot: object) -> list[str]:
    actions = plan(snapshot).plan.actions  # type: ignore[arg-type]
    return [one.key.name for one in actions if isinstance(one, Create)]


def deleted(snapshot: object) -> list[str]:
    actions = plan(snapshot).plan.actions  # type: ignore[arg-type]
    return [one.key.name for one in actions if isinstance(one, Delete)]


def name(minutes: int) -> str:
    return f"tick-{int(at(minutes).timestamp()) // 60}"


def test_nothing_is_due_before_the_first_tick() -> None:
    assert plan(seen(at(0.9))).plan == NOTHING


def test_the_first_tick_after_creation_is_served() -> None:
    (action,) = plan(seen(at(1))).plan.actions
    assert isinstance(action, Create)
    assert action.resource == RAY_JOBS
    assert action.cause is Cause.TICK
    meta = action.manifest["metadata"]
    assert meta["name"] == name(1)
    assert meta["annotations"] == {"ray.io/cronjob-scheduled-timestamp": "2026-01-01T12:01:00Z"}


def test_a_served_tick_is_not_served_again() -> None:
    assert plan(seen(at(1.5), a_cron(last=at(1)))).plan == NOTHING


def test_of_many_missed_ticks_only_the_latest_is_served() -> None:
    assert created(seen(at(90.5), a_cron(last=at(1)))) == [name(90)]


def test_kuberays_way_serves_the_earliest_first() -> None:
    settings = Settings(cron_replay_missed=True)
    assert created(seen(at(90.5), a_cron(last=at(1)), settings=settings)) == [name(2)]


def test_a_child_that_an_earlier_round_made_is_not_made_again() -> None:
    assert plan(seen(at(1), a_cron(), a_child(at(1)))).plan == NOTHING


def test_the_zone_decides_when_midnight_is() -> None:
    cron = a_cron(schedule="0 0 * * *", timeZone="Asia/Tokyo")
    assert created(seen(at(3 * 60 - 1), cron)) == []
    assert created(seen(at(3 * 60), cron)) == [name(3 * 60)]


def test_without_a_zone_the_schedule_is_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """S16: whatever the local zone of the operator is."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        cron = a_cron(schedule="0 15 * * *")
        assert created(seen(at(3 * 60 - 1), cron)) == []
        assert created(seen(at(3 * 60), cron)) == [name(3 * 60)]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_interval_counts_from_the_last_tick() -> None:
    cron = a_cron(schedule="@every 7m", last=at(1))
    assert created(seen(at(7.9), cron)) == []
    assert created(seen(at(8), cron)) == [name(8)]
    assert created(seen(at(30), cron)) == [name(29)]


def test_nothing_happens_while_suspended_or_being_deleted_or_wrong() -> None:
    assert not plan(seen(at(5), a_cron(suspend=True))).plan.actions
    gone = a_cron(meta={"deletionTimestamp": "2026-01-01T12:04:00Z"})
    assert not plan(seen(at(5), gone)).plan.actions
    assert not plan(seen(at(5), a_cron(schedule="nonsense"))).plan.actions


def test_history_beyond_the_limits_goes_oldest_first() -> None:
    cron = a_cron(last=at(9), successfulJobsHistoryLimit=1, failedJobsHistoryLimit=2)
    children = [a_child(at(n), "SUCCEEDED" if n % 2 else "FAILED") for n in range(1, 9)]
    snapshot = seen(at(9.5), cron, *children)
    assert sorted(deleted(snapshot)) == [name(1), name(2), name(3), name(4), name(5)]
    assert all(one.uid for one in plan(snapshot).plan.actions if isinstance(one, Delete))


def test_by_default_all_history_is_kept_as_kuberay_does() -> None:
    children = [a_child(at(n), "SUCCEEDED") for n in range(1, 9)]
    assert plan(seen(at(9.5), a_cron(last=at(9)), *children)).plan == NOTHING


def test_limits_come_from_the_spec_then_the_annotation_then_the_operator() -> None:
    children = [a_child(at(n), "SUCCEEDED") for n in range(1, 6)]
    settings = Settings(cron_successful_history=4)
    annotated = {
        "annotations": {
            ANNOTATION_SUCCESSFUL_JOBS_LIMIT: "3",
            ANNOTATION_FAILED_JOBS_LIMIT: "nonsense",
        }
    }
    plain, marked = a_cron(last=at(9)), a_cron(last=at(9), meta=annotated)
    both = a_cron(last=at(9), meta=annotated, successfulJobsHistoryLimit=2)
    counts = [
        len(deleted(seen(at(9.5), cron, *children, settings=settings)))
        for cron in (plain, marked, both)
    ]
    assert counts == [1, 2, 3]


def test_running_children_are_never_history() -> None:
    cron = a_cron(last=at(9), successfulJobsHistoryLimit=0, failedJobsHistoryLimit=0)
    assert deleted(seen(at(9.5), cron, a_child(at(1)))) == []


def test_a_child_whose_tick_is_not_recorded_yet_stays() -> None:
    """Its name is what keeps the tick from being served twice."""
    cron = a_cron(last=at(1), successfulJobsHistoryLimit=0)
    snapshot = seen(at(2), cron, a_child(at(2), "SUCCEEDED"))
    assert plan(snapshot).plan == NOTHING


@pytest.mark.parametrize("cause", list(Cause))
def test_no_action_is_silent(cause: Cause) -> None:
    assert cause.event.done
    assert cause.event.failed


def test_the_same_snapshot_gives_the_same_plan() -> None:
    assert plan(seen(at(5))).plan == plan(seen(at(5))).plan
