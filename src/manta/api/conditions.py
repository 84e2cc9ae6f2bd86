"""Conditions of a status: an ordered tuple with one entry per type.

`lastTransitionTime` changes only when `status` changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

import msgspec

from manta.api.meta import Condition
from manta.api.times import format_time


class HasTypeAndStatus(Protocol):
    """What `find` and `is_true` need; Pod, Job and Ray conditions all have it."""

    @property
    def type(self) -> str: ...

    @property
    def status(self) -> str: ...


C = TypeVar("C", bound=HasTypeAndStatus)


@dataclass(frozen=True, slots=True)
class Blockage:
    """Why something waits: reason (one CamelCase word) and message of a condition."""

    reason: str
    message: str


def find(conditions: Iterable[C], type_: str) -> C | None:
    return next((one for one in conditions if one.type == type_), None)


def is_true(conditions: Iterable[HasTypeAndStatus], type_: str) -> bool:
    found = find(conditions, type_)
    return found is not None and found.status == "True"


def set_condition(
    conditions: Iterable[Condition], wanted: Condition, now: datetime
) -> tuple[Condition, ...]:
    """Add or replace a condition in place, keeping the order of the others.

    A `last_transition_time` in `wanted` is used if the status changes.
    """
    before = tuple(conditions)
    known = find(before, wanted.type)
    if known is not None and known.status == wanted.status:
        moved = known.last_transition_time
    else:
        moved = wanted.last_transition_time or format_time(now)
    settled = msgspec.structs.replace(wanted, last_transition_time=moved)
    if known is None:
        return (*before, settled)
    return tuple(settled if one is known else one for one in before)


def remove(conditions: Iterable[Condition], type_: str) -> tuple[Condition, ...]:
    return tuple(one for one in conditions if one.type != type_)
