"""One object with its owners and dependents: all that the collector decides from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from manta.api.meta import ObjectMeta, OwnerReference
from manta.localplane.builtin.garbage_collector.graph import Entry

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class OwnerState(Enum):
    SOLID = "it is there"
    WAITING = "it is being deleted in the foreground and waits for its dependents"
    ABSENT = "it is gone, or never was"
    ELSEWHERE = "it is in another namespace, which counts as absent"
    UNKNOWN = "its kind is not served, so nobody can say"


@dataclass(frozen=True, slots=True)
class Owner:
    ref: OwnerReference
    state: OwnerState


@dataclass(frozen=True, slots=True)
class ItemSnapshot:
    item: Entry
    owners: tuple[Owner, ...]
    dependents: tuple[Entry, ...]


def is_going_in_foreground(meta: ObjectMeta) -> bool:
    return meta.deletion_timestamp is not None and FOREGROUND in meta.finalizers
