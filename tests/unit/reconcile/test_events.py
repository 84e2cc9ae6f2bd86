"""Events from outcomes, by the causes of the actions."""

from __future__ import annotations

import asyncio

import pytest

from manta.api.meta import Key, Uid
from manta.api.resources import PODS
from manta.kube.errors import Conflict, Forbidden, NotFound, Unreachable
from manta.reconcile.actions import Call, Create, Delete, Patch
from manta.reconcile.causes import ONLY_FAILURES, ActionCause, Reasons
from manta.reconcile.events import action_events
from manta.reconcile.failure_log import FailureLog
from manta.reconcile.failures import blockage_of
from manta.reconcile.outcome import Failure, Outcome, Result
from manta.runtime.freshness import Owner
from manta.runtime.gate import WritesStopped


class Why(ActionCause):
    HEAD = Reasons(
        "Create",
        "CreatedHeadPod",
        "FailedToCreateHeadPod",
        done_note="Created head Pod {key}",
        failed_note="Failed to create head Pod {key}: {error}",
    )
    SILENT = ONLY_FAILURES, "nothing is recorded"
    ALSO_SILENT = ONLY_FAILURES


KEY = Key("default", "head")


def action(cause: Why = Why.HEAD) -> Create:
    return Create(PODS, {"metadata": {"name": "head", "namespace": "default"}}, cause)


def notes(outcome: Outcome) -> list[tuple[str, str, str]]:
    return [(one.type, one.reason, one.note) for one in action_events(outcome)]


def test_what_was_done_is_reported() -> None:
    outcome = Outcome(done=(Result(action(), KEY),))
    assert notes(outcome) == [("Normal", "CreatedHeadPod", "Created head Pod default/head")]


def test_what_was_there_already_is_not() -> None:
    assert notes(Outcome(done=(Result(action(), KEY, existed=True),))) == []


def test_a_refusal_is_a_warning_with_its_reason() -> None:
    refused = Forbidden(403, "Forbidden", "exceeded quota")
    ((type_, reason, note),) = notes(Outcome(failures=(Failure(action(), refused),)))
    assert (type_, reason) == ("Warning", "FailedToCreateHeadPod")
    assert "exceeded quota" in note


def test_failures_that_say_nothing_of_the_object_are_not_reported() -> None:
    routine = (
        Conflict(409, "Conflict", "modified"),
        Unreachable("gone", sent=True),
        WritesStopped("not the leader"),
    )
    assert notes(Outcome(failures=tuple(Failure(action(), one) for one in routine))) == []


def test_a_cause_may_be_silent_on_purpose() -> None:
    assert notes(Outcome(done=(Result(action(Why.SILENT), KEY),))) == []


def test_causes_with_equal_events_stay_different() -> None:
    assert [str(one) for one in Why] == ["head", "nothing is recorded", "also silent"]


def test_a_failure_is_reported_also_where_a_success_is_not() -> None:
    refused = Forbidden(403, "Forbidden", "denied by a webhook")
    cause = Why.SILENT
    actions = (
        action(cause),
        Patch(PODS, KEY, {}, cause),
        Delete(PODS, KEY, Uid("1"), cause),
        Call("stop", KEY, cause),
    )
    failures = tuple(Failure(one, refused) for one in actions)
    found = [(one.reason, one.action, one.note) for one in action_events(Outcome((), failures))]
    why = "default/head: denied by a webhook (403 Forbidden)"
    assert found == [
        ("FailedToCreatePod", "Create", f"Failed to create Pod {why}"),
        ("FailedToUpdatePod", "Update", f"Failed to update Pod {why}"),
        ("FailedToDeletePod", "Delete", f"Failed to delete Pod {why}"),
        ("FailedToStop", "Stop", f"Failed to stop {why}"),
    ]


class Told(ActionCause):
    """A cause that names its Event, and one that does not."""

    NAMED = Reasons("Submit", "Submitted", "FailedToSubmit", failed_note="Failed: {error}")
    UNNAMED = ONLY_FAILURES


@pytest.mark.parametrize("cause", Told)
def test_no_failure_shows_a_credential(cause: Told, caplog: pytest.LogCaptureFixture) -> None:
    said = ValueError("GET http://ray:hunter2@head:8265 with Authorization: Bearer abcdef.123")
    failure = Failure(Call("submit", KEY, cause), said)
    shown = [note for _, _, note in notes(Outcome((), (failure,)))]
    shown.append(blockage_of(failure).message)

    async def write() -> None:
        FailureLog().add(Owner("test", KEY), failure)

    asyncio.run(write())
    shown += caplog.messages
    assert len(shown) == 3
    for text in shown:
        assert "<redacted>@head:8265" in text
        assert "hunter2" not in text
        assert "abcdef" not in text


def test_an_object_that_went_meanwhile_is_no_failure_of_a_silent_cause() -> None:
    gone = NotFound(404, "NotFound", "pods head not found", {"name": "head"})
    no_such_kind = NotFound(404, "NotFound", "page not found")
    patch = Patch(PODS, KEY, {}, Why.SILENT)
    assert notes(Outcome(failures=(Failure(patch, gone),))) == []
    assert len(notes(Outcome(failures=(Failure(patch, no_such_kind),)))) == 1
