"""Who has to go when an important Pod does not fit."""

from __future__ import annotations

from manta.localplane.builtin.views import Node, Pod
from manta.localplane.scheduler.node_cache import NodeCache, pod_info
from manta.localplane.scheduler.placement import NoFit, place
from manta.localplane.scheduler.preemption import NoPreemption, Preemption, preempt
from support.plane_objects import a_node, a_pod


def room_for(pod: Pod, pods: dict[str, list[Pod]], *nodes: Node) -> Preemption | NoPreemption:
    cache = NodeCache()
    for node in nodes or (a_node("n1"),):
        cache.set_node(node)
    for name, placed_here in pods.items():
        for one in placed_here:
            cache.place(one, name)
    no_fit = place(pod_info(pod), cache.nodes())
    assert isinstance(no_fit, NoFit)
    return preempt(pod_info(pod), no_fit, cache.nodes())


def names(room: Preemption | NoPreemption) -> list[str]:
    assert isinstance(room, Preemption)
    return [pod.metadata.name for pod in room.victims]


def test_the_least_important_pods_are_preempted_and_no_more() -> None:
    pods = {"n1": [a_pod("low", cpu="2", priority=1), a_pod("mid", cpu="2", priority=5)]}
    assert names(room_for(a_pod("vip", cpu="2", priority=10), pods)) == ["low"]


def test_pods_of_equal_priority_are_never_preempted() -> None:
    room = room_for(a_pod("b", cpu="2", priority=1), {"n1": [a_pod("a", cpu="4", priority=1)]})
    assert room == NoPreemption(
        "no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_the_node_with_the_cheapest_victims_is_taken() -> None:
    pods = {
        "n1": [a_pod("dear", cpu="4", priority=5)],
        "n2": [a_pod("cheap", cpu="4", priority=1)],
    }
    room = room_for(a_pod("vip", cpu="2", priority=9), pods, a_node("n1"), a_node("n2"))
    assert isinstance(room, Preemption)
    assert room.node == "n2"


def test_preemption_does_not_help_against_a_selector() -> None:
    pod = a_pod("vip", priority=9, nodeSelector={"zone": "x"})
    room = room_for(pod, {"n1": [a_pod("low")]})
    assert room == NoPreemption(
        "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_a_pod_may_decline_to_preempt() -> None:
    pod = a_pod("vip", cpu="4", priority=9, preemptionPolicy="Never")
    room = room_for(pod, {"n1": [a_pod("low", cpu="4")]})
    assert room == NoPreemption(
        "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
    )


def test_no_more_pods_are_preempted_while_a_victim_terminates() -> None:
    leaving = a_pod("low", cpu="2", meta={"deletionTimestamp": "2026-11-15T12:00:30Z"})
    room = room_for(a_pod("vip", cpu="4", priority=9), {"n1": [leaving, a_pod("other", cpu="2")]})
    assert isinstance(room, NoPreemption)


def test_preemption_does_not_help_on_a_small_node() -> None:
    room = room_for(a_pod("vip", cpu="100", priority=9), {"n1": [a_pod("low", cpu="1")]})
    assert isinstance(room, NoPreemption)
    assert "1 Preemption is not helpful for scheduling." in room.message
