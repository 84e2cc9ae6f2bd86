"""The status of a RayCronJob."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from manta.controllers.raycronjob.events import status_events
from manta.controllers.raycronjob.plan import plan
from manta.controllers.raycronjob.status import next_status
from manta.kube.errors import Forbidden, Unreachable
from manta.reconcile.outcome import UNTRIED, Failure, Outcome, Result
from support.raycronjob import a_child, a_cron, seen

NOW = datetime(2026, 1, 1, 12, 5, 30, tzinfo=UTC)
TICK = datetime(2026, 1, 1, 12, 5, tzinfo=UTC)


def test_a_served_tick_is_recorded() -> None:
    snapshot = seen(NOW)
    (action,) = plan(snapshot).plan.actions
    outcome = Outcome(done=(Result(action, action.key),))
    assert next_status(snapshot, outcome).last_schedule_time == "2026-01-01T12:05:00Z"


def test_a_tick_whose_child_could_not_be_made_is_not() -> None:
    snapshot = seen(NOW)
    (action,) = plan(snapshot).plan.actions
    outcome = Outcome(failures=(Failure(action, Unreachable("gone", sent=False)),))
    assert next_status(snapshot, outcome) == snapshot.cron.status


def test_a_child_that_is_refused_is_a_condition_until_it_is_made() -> None:
    """It was an Event only, and an Event expires."""
    snapshot = seen(NOW)
    (action,) = plan(snapshot).plan.actions
    failure = Failure(action, Forbidden(403, "Forbidden", "exceeded quota: team"))
    refused = next_status(snapshot, Outcome(failures=(failure,)))
    [blocked] = refused.conditions
    assert (blocked.type, blocked.status, blocked.reason) == ("Blocked", "True", "Forbidden")
    assert f"cannot create RayJob {action.key}" in blocked.message
    assert "exceeded quota: team" in blocked.message
    snapshot = seen(NOW, msgspec.structs.replace(a_cron(), status=refused))
    outcome = Outcome(done=(Result(action, action.key),))
    assert next_status(snapshot, outcome).conditions == ()


def test_a_child_found_from_before_a_crash_counts() -> None:
    snapshot = seen(NOW, a_cron(), a_child(TICK))
    assert next_status(snapshot, UNTRIED).last_schedule_time == "2026-01-01T12:05:00Z"


def test_a_child_made_just_before_a_suspension_or_a_wrong_edit_counts() -> None:
    for cron in (a_cron(suspend=True), a_cron(schedule="x")):
        snapshot = seen(NOW, cron, a_child(TICK))
        assert next_status(snapshot, UNTRIED).last_schedule_time == "2026-01-01T12:05:00Z"


def test_no_tick_is_recorded_without_its_child_while_suspended_or_wrong() -> None:
    for cron in (a_cron(suspend=True), a_cron(schedule="x")):
        assert next_status(seen(NOW, cron), UNTRIED).last_schedule_time is None


def test_an_invalid_spec_is_a_condition_until_it_is_corrected() -> None:
    cron = a_cron(schedule="x")
    wrong = next_status(seen(NOW, cron), UNTRIED)
    [blocked] = wrong.conditions
    assert (blocked.type, blocked.status) == ("Blocked", "True")
    assert blocked.reason == "InvalidRayCronJobSpec"
    assert "spec.schedule" in blocked.message
    corrected = msgspec.structs.replace(a_cron(), status=wrong)
    assert next_status(seen(NOW, corrected), UNTRIED).conditions == ()


def test_a_child_of_a_tick_that_is_still_to_come_is_not_believed() -> None:
    snapshot = seen(NOW, a_cron(suspend=True), a_child(TICK + timedelta(hours=1)))
    assert next_status(snapshot, UNTRIED) == snapshot.cron.status


def test_a_suspended_one_says_so_until_it_is_deleted() -> None:
    [event] = status_events(seen(NOW, a_cron(suspend=True)))
    assert (event.type, event.reason, event.action) == ("Normal", "SuspendedRayCronJob", "Suspend")
    gone = a_cron(suspend=True, meta={"deletionTimestamp": "2026-01-01T12:05:00Z"})
    assert list(status_events(seen(NOW, gone))) == []
