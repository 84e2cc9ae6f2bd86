"""Turns an outcome into Events, by the table of causes that each controller supplies.

Logic never words an Event. What was found to be there already tells nothing; nor does a failure
that says nothing about the object (a conflict, a lost connection, a lost lease).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from manta.kube.errors import Conflict, Unreachable
from manta.reconcile.outcome import Failure, Outcome, Result
from manta.reconcile.perform import OwnedByAnotherError
from manta.runtime.gate import WritesStopped
from manta.runtime.recorder import EventType, ObjectReference, Recorder

_ROUTINE = (Conflict, Unreachable, WritesStopped)


@dataclass(frozen=True, slots=True)
class Reasons:
    """How one cause is told. An empty reason: this is not told, on purpose."""

    action: str
    done: str = ""
    failed: str = ""
    done_note: str = "{done} {key}"
    failed_note: str = "{failed} {key}: {error}"
    done_type: EventType = "Normal"
    """A warning where what was done is nothing to be glad of."""
    taken: str = ""
    """Instead of `failed`, when the name belongs to someone else."""


def created(kind: str, noun: str = "") -> Reasons:
    """`CreatedService` / `FailedToCreateService`; `noun` is what the note calls it."""
    return _about(kind, noun or kind, "Create", "Created")


def updated(kind: str, noun: str = "") -> Reasons:
    return _about(kind, noun or kind, "Update", "Updated", why=": {why}")


def deleted(kind: str, noun: str = "") -> Reasons:
    return _about(kind, noun or kind, "Delete", "Deleted", why=": {why}")


def _about(kind: str, noun: str, action: str, past: str, why: str = "") -> Reasons:
    return Reasons(
        action,
        done=f"{past}{kind}",
        failed=f"FailedTo{action}{kind}",
        done_note=f"{past} {noun} {{key}}{why}",
        failed_note=f"Failed to {action.lower()} {noun} {{key}}: {{error}}",
    )


EventTable = Mapping[StrEnum, Reasons]


@dataclass(frozen=True, slots=True)
class Told:
    """One Event, worded."""

    type: EventType
    reason: str
    action: str
    note: str


def worded(table: EventTable, outcome: Outcome) -> Iterator[Told]:
    """The Events that an outcome deserves."""
    for result in outcome.done:
        reasons = table[result.action.cause]
        if reasons.done and not result.existed:
            yield Told(reasons.done_type, reasons.done, reasons.action, _done_note(reasons, result))
    for failure in outcome.failures:
        reasons = table[failure.action.cause]
        if reasons.failed and not isinstance(failure.error, _ROUTINE):
            is_taken = reasons.taken and isinstance(failure.error, OwnedByAnotherError)
            reason = reasons.taken if is_taken else reasons.failed
            yield Told("Warning", reason, reasons.action, _failed_note(reasons, failure))


def emit(
    recorder: Recorder,
    controller: str,
    regarding: ObjectReference,
    table: EventTable,
    outcome: Outcome,
) -> None:
    tell(recorder, controller, regarding, worded(table, outcome))


def tell(
    recorder: Recorder, controller: str, regarding: ObjectReference, told: Iterable[Told]
) -> None:
    for one in told:
        recorder.event(regarding, one.type, one.reason, one.action, one.note, controller=controller)


def _done_note(reasons: Reasons, result: Result) -> str:
    return reasons.done_note.format(done=reasons.done, key=result.key, why=result.action.why)


def _failed_note(reasons: Reasons, failure: Failure) -> str:
    return reasons.failed_note.format(
        failed=reasons.failed, key=failure.action.key, why=failure.action.why, error=failure.error
    )
