"""One object with its owners and dependents."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from manta.api.meta import ObjectMeta, OwnerReference
from manta.localplane.builtin.garbage_collector.graph import Entry

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class OwnerState(Enum):
    SOLID = "it exists"
    WAITING = "it is being deleted in the foreground and waits for its dependents"
    ABSENT = "it does not exist"
    ELSEWHERE = "it is in another namespace, which counts as absent"
    UNKNOWN = "its kind is not served, so it cannot be looked up"


@dataclass(frozen=True, slots=True)
class Owner:
    ref: OwnerReference
    state: OwnerState


@dataclass(frozen=True, slots=True)
class ItemSnapshot:
    item: Entry
    owners: tuple[Owner, ...]
    dependents: tuple[Entry, ...]


def is_deleting_in_foreground(meta: ObjectMeta) -> bool:
    return meta.deletion_timestamp is not None and FOREGROUND in meta.finalizers
