"""When a CronJob starts Jobs, and which ones it keeps (U4)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from manta.api.meta import Key
from manta.api.times import format_time
from manta.localplane.builtin.cronjob.plan import Cause, blocked, plan
from manta.localplane.builtin.cronjob.snapshot import CronJobSnapshot
from manta.localplane.builtin.cronjob.status import next_status
from manta.localplane.builtin.views import Job
from manta.localplane.builtin.workload_views import CronJob
from manta.reconcile.actions import Create
from manta.reconcile.outcome import UNTRIED, Outcome, Result
from support.plane_objects import NOW, a_job, ago
from support.workload_objects import a_cron_job

DUE = f"c-{int(NOW.timestamp()) // 60}"
"""NOW is twelve o'clock sharp: a time of every schedule here."""


def a_snapshot(cron_job: CronJob, *jobs: Job, later: float = 30) -> CronJobSnapshot:
    return CronJobSnapshot(cron_job, jobs, NOW + timedelta(seconds=later))


def done(snapshot: CronJobSnapshot) -> list[tuple[Any, str]]:
    return [(action.cause, action.key.name) for action in plan(snapshot).actions]


def ended(name: str, how: str = "Complete", *, age: float = 60) -> Job:
    status = {
        "startTime": ago(age),
        "completionTime": ago(age - 1),
        "conditions": [{"type": how, "status": "True"}],
    }
    return a_job(name, status=status)


SERVED = {"lastScheduleTime": format_time(NOW)}


def test_a_time_that_has_come_starts_a_job_named_after_it() -> None:
    [create] = plan(a_snapshot(a_cron_job())).actions
    assert isinstance(create, Create)
    meta = create.manifest["metadata"]
    assert meta["name"] == DUE
    assert meta["labels"] == {"a": "b"}
    stamp = meta["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert stamp == "2026-11-15T12:00:00Z"


def test_the_zone_of_the_schedule_counts() -> None:
    cron_job = a_cron_job(schedule="0 13 * * *", timeZone="Europe/Berlin")
    [create] = plan(a_snapshot(cron_job)).actions
    assert isinstance(create, Create)
    stamps = create.manifest["metadata"]["annotations"].values()
    assert list(stamps) == ["2026-11-15T13:00:00+01:00"]


def test_after_a_job_was_started_the_next_time_is_waited_for() -> None:
    snapshot = a_snapshot(a_cron_job(status=SERVED))
    wait = plan(snapshot).wait
    assert done(snapshot) == []
    assert wait is not None
    assert wait.retry_in == timedelta(minutes=9, seconds=30)


def test_of_many_missed_times_only_the_latest_is_served() -> None:
    long_ago = a_cron_job(status={"lastScheduleTime": ago(86400)})
    assert done(a_snapshot(long_ago)) == [(Cause.START, DUE)]


def test_a_time_that_is_older_than_the_deadline_is_missed() -> None:
    cron_job = a_cron_job(startingDeadlineSeconds=60)
    assert done(a_snapshot(cron_job, later=30)) == [(Cause.START, DUE)]
    assert done(a_snapshot(cron_job, later=90)) == []


def test_a_suspended_cron_job_starts_nothing_and_still_cleans_up() -> None:
    cron_job = a_cron_job(suspend=True, successfulJobsHistoryLimit=0)
    assert done(a_snapshot(cron_job, ended("old"))) == [(Cause.HISTORY, "old")]


def test_forbid_waits_for_the_job_that_is_active() -> None:
    snapshot = a_snapshot(a_cron_job(concurrencyPolicy="Forbid"), a_job("running"))
    assert done(snapshot) == []
    assert blocked(snapshot)
    finished = a_snapshot(a_cron_job(concurrencyPolicy="Forbid"), ended("running"))
    assert done(finished) == [(Cause.START, DUE)]


def test_replace_deletes_the_job_that_is_active_first() -> None:
    snapshot = a_snapshot(a_cron_job(concurrencyPolicy="Replace"), a_job("running"))
    assert done(snapshot) == [(Cause.REPLACE, "running"), (Cause.START, DUE)]
    assert len(plan(snapshot).stages) == 2


def test_the_oldest_finished_jobs_beyond_the_limits_go() -> None:
    cron_job = a_cron_job(status=SERVED, successfulJobsHistoryLimit=1, failedJobsHistoryLimit=1)
    jobs = [
        ended("s-old", age=300),
        ended("s-new", age=100),
        ended("f-old", "Failed", age=400),
        ended("f-new", "Failed", age=50),
    ]
    assert done(a_snapshot(cron_job, *jobs)) == [(Cause.HISTORY, "s-old"), (Cause.HISTORY, "f-old")]


def test_an_unreadable_schedule_stops_only_this_cron_job() -> None:
    assert done(a_snapshot(a_cron_job(schedule="never"))) == []


def test_the_status_names_the_job_that_was_started() -> None:
    snapshot = a_snapshot(a_cron_job(), ended("before"))
    [create] = plan(snapshot).actions
    started = Outcome(done=(Result(create, Key("default", DUE), uid="u1"),))  # type: ignore[arg-type]
    status = next_status(snapshot, started)
    assert status.last_schedule_time == format_time(NOW)
    assert [one.name for one in status.active or ()] == [DUE]
    assert status.last_successful_time == ago(59)
    untouched = next_status(snapshot, UNTRIED)
    assert (untouched.last_schedule_time, untouched.active) == (None, None)
