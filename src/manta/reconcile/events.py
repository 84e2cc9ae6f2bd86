"""Turns the outcome of a plan into Events, by the causes of its actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from manta.reconcile.actions import Action, Call, Create, Delete, Patch
from manta.reconcile.causes import Reasons
from manta.reconcile.executor import OwnedByAnotherError
from manta.reconcile.failures import is_of_gone_object, is_routine, shown_error
from manta.reconcile.outcome import Failure, Outcome, Result
from manta.runtime.recorder import EventType, ObjectReference


@dataclass(frozen=True, slots=True)
class Event:
    type: EventType
    reason: str
    action: str
    note: str
    regarding: ObjectReference | None = None
    """The object that it is about, if not the one that is reconciled."""


def action_events(outcome: Outcome) -> Iterator[Event]:
    """The Events of the actions that were done or failed.

    Objects that existed already leave none, nor do failures that pass by themselves.
    """
    for result in outcome.done:
        reasons = result.action.cause.event
        if reasons.done and not result.existed:
            note = _done_note(reasons, result)
            yield Event(reasons.done_type, reasons.done, reasons.action, note)
    for failure in outcome.failures:
        if is_routine(failure):
            continue
        reasons = failure.action.cause.event
        if reasons.failed:
            is_taken = reasons.taken and isinstance(failure.error, OwnedByAnotherError)
            reason = reasons.taken if is_taken else reasons.failed
            yield Event("Warning", reason, reasons.action, _failed_note(reasons, failure))
        elif not is_of_gone_object(failure):
            yield _unforeseen(failure)


def _unforeseen(failure: Failure) -> Event:
    """The Event of a cause that names none: no failure is silent."""
    action = failure.action
    verb, kind = _verb(action), "" if isinstance(action, Call) else action.resource.kind
    what = f"{verb.lower()} {kind}".rstrip()
    note = f"Failed to {what} {action.key}: {shown_error(failure)}"
    return Event("Warning", f"FailedTo{verb}{kind}", verb, note)


def _verb(action: Action) -> str:
    match action:
        case Create():
            return "Create"
        case Patch():
            return "Update"
        case Delete():
            return "Delete"
        case Call(verb):
            return verb.capitalize()


def _done_note(reasons: Reasons, result: Result) -> str:
    return reasons.done_note.format(done=reasons.done, key=result.key, why=result.action.why)


def _failed_note(reasons: Reasons, failure: Failure) -> str:
    return reasons.failed_note.format(
        failed=reasons.failed,
        key=failure.action.key,
        why=failure.action.why,
        error=shown_error(failure),
    )
