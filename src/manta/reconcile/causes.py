"""Why an action is planned, and the Event that it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Self

from manta.runtime.recorder import EventType


@dataclass(frozen=True, slots=True)
class Reasons:
    """The Event of one cause. Without a reason, a success leaves none, and a failure a general one."""

    action: str
    done: str = ""
    failed: str = ""
    done_note: str = "{done} {key}"
    failed_note: str = "{failed} {key}: {error}"
    done_type: EventType = "Normal"
    """A warning where the action itself is bad news."""
    taken: str = ""
    """The reason instead of `failed`, when the name belongs to another owner."""


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


ONLY_FAILURES = Reasons("Update")
"""No Event of what was done, on purpose."""


class ActionCause(Enum):
    """The causes of a controller's actions: each member holds the Event of its actions.

    `SCALE_UP = created("WorkerPod")`; or, with the sentence that says why,
    `SURPLUS = POD_DELETED, "too many Pods are active"`.
    """

    event: Reasons
    why: str

    def __new__(cls, event: Reasons, why: str = "") -> Self:
        member = object.__new__(cls)
        member._value_ = len(cls.__members__)  # members with equal Events stay different
        member.event, member.why = event, why
        return member

    def __str__(self) -> str:
        """The sentence, or the name in words: `NO_HEAD` as `no head`."""
        return self.why or self.name.lower().replace("_", " ")
