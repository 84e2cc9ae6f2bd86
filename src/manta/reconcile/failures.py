"""What a failed action says about the object: for its conditions, its Events and the log."""

from __future__ import annotations

from typing import Final

from manta.api.conditions import Blockage
from manta.api.text import without_credentials
from manta.kube.errors import Conflict, NotFound, Unreachable
from manta.reconcile.actions import Call, Create
from manta.reconcile.outcome import Failure
from manta.runtime.gate import WritesStopped

MAX_SHOWN: Final = 1000
"""Characters of an error; an Event has 1024."""


def is_routine(failure: Failure) -> bool:
    """It says nothing about the object and passes by itself: a conflict, a lost connection or lease."""
    return isinstance(failure.error, Conflict | Unreachable | WritesStopped)


def is_of_gone_object(failure: Failure) -> bool:
    """The object to change was deleted meanwhile."""
    error = failure.error
    is_missing = isinstance(error, NotFound) and not error.of_type
    return is_missing and not isinstance(failure.action, Create)


def shown_error(failure: Failure) -> str:
    """What went wrong; any exception of a call may quote a URL or a header."""
    return without_credentials(str(failure.error), MAX_SHOWN)


def blockage_of(failure: Failure) -> Blockage:
    """The failure as reason and message of a condition."""
    action, error = failure.action, failure.error
    reason = getattr(error, "reason", "") or type(error).__name__
    if isinstance(action, Call):
        return Blockage(reason, f"cannot {action.verb} {action.key}: {shown_error(failure)}")
    verb, kind = type(action).__name__.lower(), action.resource.kind
    return Blockage(reason, f"cannot {verb} {kind} {action.key}: {shown_error(failure)}")
