"""Turns the outcome of a plan into Events, by the causes of its actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from manta.kube.errors import Conflict, Unreachable
from manta.reconcile.causes import Reasons
from manta.reconcile.executor import OwnedByAnotherError
from manta.reconcile.outcome import Failure, Outcome, Result
from manta.runtime.gate import WritesStopped
from manta.runtime.recorder import EventType, ObjectReference

_ROUTINE = (Conflict, Unreachable, WritesStopped)


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

    Objects that existed already leave none, nor do failures that say nothing about the object (a
    conflict, a lost connection, a lost lease).
    """
    for result in outcome.done:
        reasons = result.action.cause.event
        if reasons.done and not result.existed:
            note = _done_note(reasons, result)
            yield Event(reasons.done_type, reasons.done, reasons.action, note)
    for failure in outcome.failures:
        reasons = failure.action.cause.event
        if reasons.failed and not isinstance(failure.error, _ROUTINE):
            is_taken = reasons.taken and isinstance(failure.error, OwnedByAnotherError)
            reason = reasons.taken if is_taken else reasons.failed
            yield Event("Warning", reason, reasons.action, _failed_note(reasons, failure))


def _done_note(reasons: Reasons, result: Result) -> str:
    return reasons.done_note.format(done=reasons.done, key=result.key, why=result.action.why)


def _failed_note(reasons: Reasons, failure: Failure) -> str:
    return reasons.failed_note.format(
        failed=reasons.failed, key=failure.action.key, why=failure.action.why, error=failure.error
    )
