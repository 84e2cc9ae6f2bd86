"""Who has to go when an important Pod does not fit."""

from __future__ import annotations

from manta.localplane.builtin.views import Node, Pod
from manta.localplane.scheduler.ledger import Ledger, tenant
from manta.localplane.scheduler.placement import Nowhere, place
from manta.localplane.scheduler.preemption import Eviction, NoRoom, make_room
from support.plane_objects import a_node, a_pod


def room_for(pod: Pod, tenants: dict[str, list[Pod]], *nodes: Node) -> Eviction | NoRoom:
    ledger = Ledger()
    for node in nodes or (a_node("n1"),):
        ledger.set_node(node)
    for name, pods in tenants.items():
        for one in pods:
            ledger.place(one, name)
    nowhere = place(tenant(pod), ledger.loads())
    assert isinstance(nowhere, Nowhere)
    return make_room(tenant(pod), nowhere, ledger.loads())


def names(room: Eviction | NoRoom) -> list[str]:
    assert isinstance(room, Eviction)
    return [pod.metadata.name for pod in room.victims]


def test_the_least_important_pod_goes_and_no_more_than_needed() -> None:
    tenants = {"n1": [a_pod("low", cpu="2", priority=1), a_pod("mid", cpu="2", priority=5)]}
    assert names(room_for(a_pod("vip", cpu="2", priority=10), tenants)) == ["low"]


def test_equals_are_never_evicted() -> None:
    room = room_for(a_pod("b", cpu="2", priority=1), {"n1": [a_pod("a", cpu="4", priority=1)]})
    assert room == NoRoom(
        "no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_the_node_with_the_cheapest_victims_is_taken() -> None:
    tenants = {
        "n1": [a_pod("dear", cpu="4", priority=5)],
        "n2": [a_pod("cheap", cpu="4", priority=1)],
    }
    room = room_for(a_pod("vip", cpu="2", priority=9), tenants, a_node("n1"), a_node("n2"))
    assert isinstance(room, Eviction)
    assert room.node == "n2"


def test_eviction_does_not_help_against_a_selector() -> None:
    pod = a_pod("vip", priority=9, nodeSelector={"zone": "x"})
    room = room_for(pod, {"n1": [a_pod("low")]})
    assert room == NoRoom(
        "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_a_pod_may_decline_to_preempt() -> None:
    pod = a_pod("vip", cpu="4", priority=9, preemptionPolicy="Never")
    room = room_for(pod, {"n1": [a_pod("low", cpu="4")]})
    assert room == NoRoom(
        "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
    )


def test_nobody_more_is_evicted_while_a_victim_is_still_leaving() -> None:
    leaving = a_pod("low", cpu="2", meta={"deletionTimestamp": "2026-11-15T12:00:30Z"})
    room = room_for(a_pod("vip", cpu="4", priority=9), {"n1": [leaving, a_pod("other", cpu="2")]})
    assert isinstance(room, NoRoom)


def test_eviction_does_not_help_where_the_node_is_too_small() -> None:
    room = room_for(a_pod("vip", cpu="100", priority=9), {"n1": [a_pod("low", cpu="1")]})
    assert isinstance(room, NoRoom)
    assert "1 Preemption is not helpful for scheduling." in room.message
