"""Previews: the first plan after the status writes before it, and the finalizer of the first reconcile."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.meta import Key, Object, Uid
from manta.api.resources import PODS
from manta.kube.client import Client
from manta.reconcile.actions import Delete
from manta.reconcile.causes import ONLY_FAILURES, ActionCause
from manta.reconcile.plan import NOTHING, Plan, do
from manta.reconcile.preview import Reader, first_plan, with_finalizer
from support.faults import touches
from support.virtual import faulty, virtual_plane, virtually

OURS = "ray.io/finalizer"


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({}, [OURS]),
        ({"finalizers": ["other"]}, ["other", OURS]),
        ({"finalizers": [OURS]}, [OURS]),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, None),
    ],
)
def test_a_living_object_gets_the_finalizer_once(
    meta: dict[str, Any], expected: list[str] | None
) -> None:
    found = with_finalizer({"metadata": {"name": "x", **meta}}, OURS)["metadata"]
    assert found.get("finalizers") == expected


class Why(ActionCause):
    TEST = ONLY_FAILURES


ACT = do(Delete(PODS, Key("default", "a"), Uid("u"), Why.TEST))


@pytest.mark.parametrize(
    ("acts_at", "last", "expected"),
    [(0, 9, (0, ACT)), (2, 9, (2, ACT)), (5, 2, (2, NOTHING))],
    ids=["at once", "after two status writes", "the status settles first"],
)
def test_the_first_plan_with_actions_is_shown(
    acts_at: int, last: int, expected: tuple[int, Plan]
) -> None:
    def plan(stage: int) -> Plan:
        return ACT if stage >= acts_at else NOTHING

    def after_status(stage: int) -> int | None:
        return stage + 1 if stage < last else None

    assert first_plan(0, plan, after_status) == expected


def test_a_status_that_never_settles_ends_the_search() -> None:
    stage, chosen = first_plan(0, lambda _: NOTHING, lambda stage: stage + 1)
    assert 0 < stage < 100
    assert chosen == NOTHING


@pytest.mark.parametrize(("may_list", "error"), [(True, None), (False, "you may not list pods")])
@virtually
async def test_what_the_user_may_not_list_is_unknown_and_not_empty(
    may_list: bool, error: str | None
) -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        if not may_list:
            faults.deny(touches(PODS))
        found = await Reader(Client(faults), "default", {}).listed_if_possible(PODS, Object)
        assert (found.has_synced, found.watch_error) == (may_list, error)
