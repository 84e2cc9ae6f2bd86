"""What the collector does about one object."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manta.api.meta import ObjectMeta
from manta.api.resources import CONFIG_MAPS
from manta.localplane.builtin.garbage_collector.graph import Entry
from manta.localplane.builtin.garbage_collector.plan import Cause, plan
from manta.localplane.builtin.garbage_collector.snapshot import ItemSnapshot, Owner, OwnerState
from manta.reconcile.actions import Action, Call, Patch
from manta.reconcile.plan import Plan

LEAVING: dict[str, Any] = {"deletionTimestamp": "2026-11-15T12:00:00Z"}


def an_entry(name: str, *owners: str, block: bool = True, **meta: Any) -> Entry:
    refs = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": one, "uid": f"uid-{one}"}
        | ({"blockOwnerDeletion": True} if block else {})
        for one in owners
    ]
    fields = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "ownerReferences": refs,
        **meta,
    }
    return Entry(CONFIG_MAPS, msgspec.convert(fields, ObjectMeta))


def planned(item: Entry, *states: OwnerState, dependents: tuple[Entry, ...] = ()) -> Plan:
    owners = tuple(map(Owner, item.meta.owner_references, states))
    return plan(ItemSnapshot(item, owners, dependents))


def deleted(action: Action) -> str:
    """How the action deletes."""
    assert isinstance(action, Call)
    return str(action.arguments["propagation"])


@pytest.mark.parametrize("state", [OwnerState.ABSENT, OwnerState.ELSEWHERE])
def test_an_object_without_any_owner_left_is_deleted(state: OwnerState) -> None:
    [delete] = planned(an_entry("child", "o"), state).actions
    assert isinstance(delete, Call)
    assert delete.arguments == {
        "resource": CONFIG_MAPS,
        "uid": "uid-child",
        "resource_version": "7",
        "propagation": "Background",
    }


def test_an_object_with_a_living_owner_forgets_the_dead_one() -> None:
    item = an_entry("child", "dead", "alive")
    [patch] = planned(item, OwnerState.ABSENT, OwnerState.SOLID).actions
    assert isinstance(patch, Patch)
    assert patch.patch == {
        "metadata": {
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": "alive",
                    "uid": "uid-alive",
                    "blockOwnerDeletion": True,
                }
            ]
        }
    }
    assert (patch.uid, patch.resource_version) == ("uid-child", "7")


def test_an_object_with_only_living_owners_is_left_alone() -> None:
    assert planned(an_entry("child", "o"), OwnerState.SOLID) == Plan()


def test_nothing_is_decided_while_the_kind_of_an_owner_is_not_served() -> None:
    result = planned(an_entry("child", "a", "b"), OwnerState.ABSENT, OwnerState.UNKNOWN)
    assert result.actions == ()
    assert result.wait
    assert result.wait.backoff


def test_below_a_foreground_deletion_a_parent_goes_in_the_foreground_too() -> None:
    item = an_entry("middle", "top")
    below = an_entry("leaf", "middle")
    [delete] = planned(item, OwnerState.WAITING, dependents=(below,)).actions
    assert deleted(delete) == "Foreground"
    [leaf] = planned(below, OwnerState.WAITING).actions
    assert deleted(leaf) == "Background"


def test_a_ring_of_foreground_deletions_is_opened() -> None:
    going = an_entry("top", "middle", finalizers=["foregroundDeletion"], **LEAVING)
    [delete] = planned(an_entry("middle", "top"), OwnerState.WAITING, dependents=(going,)).actions
    assert deleted(delete) == "Background"


def test_a_foreground_deletion_waits_for_those_that_block_it() -> None:
    owner = an_entry("o", finalizers=["foregroundDeletion"], **LEAVING)
    assert planned(owner, dependents=(an_entry("child", "o"),)) == Plan()


def test_a_foreground_deletion_does_not_wait_for_the_others() -> None:
    owner = an_entry("o", finalizers=["x", "foregroundDeletion"], **LEAVING)
    [patch] = planned(owner, dependents=(an_entry("child", "o", block=False),)).actions
    assert isinstance(patch, Patch)
    assert patch.patch[-1] == {"op": "remove", "path": "/metadata/finalizers/1"}


def test_orphans_forget_their_owner_before_it_goes() -> None:
    owner = an_entry("o", finalizers=["orphan"], **LEAVING)
    result = planned(owner, dependents=(an_entry("child", "o"),))
    forget, release = result.actions
    assert isinstance(forget, Patch)
    assert forget.patch == {"metadata": {"ownerReferences": None}}
    assert [action.cause for action in result.stages[1].actions] == [Cause.RELEASED]
    assert release is result.stages[1].actions[0]


def test_what_is_already_going_is_not_deleted_again() -> None:
    assert planned(an_entry("child", "o", **LEAVING), OwnerState.ABSENT) == Plan()


def test_the_orphan_finalizer_of_an_object_decides_how_its_dependents_fare() -> None:
    [delete] = planned(an_entry("c", "o", finalizers=["orphan"]), OwnerState.ABSENT).actions
    assert deleted(delete) == "Orphan"
