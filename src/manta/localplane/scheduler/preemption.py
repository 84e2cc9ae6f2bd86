"""Making room for an important Pod: which Pods of lower priority would have to go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from manta.localplane.builtin.views import Pod
from manta.localplane.scheduler.ledger import NodeLoad, Tenant, load_of
from manta.localplane.scheduler.placement import (
    AFFINITY_MISMATCH,
    POD_AFFINITY,
    UNSCHEDULABLE,
    UNTOLERATED,
    Nowhere,
    around,
    refusals,
    summary,
)

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
_CLAIMS = "no new claims to deallocate,"
"""What Kubernetes says about claims of devices, of which there are none here."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """Delete these and the Pod fits on the node."""

    node: str
    victims: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class NoRoom:
    """Nothing can be done; the message goes behind that of the placement."""

    message: str


def make_room(one: Tenant, nowhere: Nowhere, loads: Sequence[NodeLoad]) -> Eviction | NoRoom:
    """The node where the least important Pods go, and the fewest of them."""
    if one.pod.spec.preemption_policy == "Never":
        return NoRoom(f"{_CLAIMS} preemption: not eligible due to preemptionPolicy=Never.")
    reasons: dict[str, tuple[str, ...]] = {}
    options: list[Eviction] = []
    for load in loads:
        name = load.node.name
        if not _may_help(one, nowhere.reasons.get(name, ()), load):
            reasons[name] = (NOT_HELPFUL,)
        elif option := _victims(one, load, loads):
            options.append(option)
        else:
            reasons[name] = (NO_VICTIMS,)
    if options:
        return min(options, key=_cost)
    message = f"{_CLAIMS} preemption: {summary(len(loads), reasons.values())}"
    return NoRoom(message if loads else "")


def _may_help(one: Tenant, reasons: Iterable[str], load: NodeLoad) -> bool:
    """Evicting Pods changes neither labels nor taints, and makes no node larger than it is."""
    if any(why in (AFFINITY_MISMATCH, UNSCHEDULABLE, POD_AFFINITY, UNTOLERATED) for why in reasons):
        return False
    return all(amount <= load.capacity.get(name, 0) for name, amount in one.demand.items())


def _victims(one: Tenant, load: NodeLoad, loads: Sequence[NodeLoad]) -> Eviction | None:
    """Imagine the node without its lesser Pods; then let back the better of them while it fits."""
    priority = one.pod.spec.priority
    lesser = [other for other in load.tenants.values() if other.pod.spec.priority < priority]
    if not lesser or any(other.pod.is_deleting for other in lesser):
        # Room is being made already: wait for it instead of evicting more.
        return None
    emptied = _without(load, lesser)
    others = around([emptied if other is load else other for other in loads])
    if refusals(one, emptied, others):
        return None
    victims: list[Pod] = []
    for other in sorted(lesser, key=lambda it: (-it.pod.spec.priority, it.pod.metadata.name)):
        emptied.add(other)
        if refusals(one, emptied, others):
            emptied.remove(other.pod.metadata.uid)
            victims.append(other.pod)
    return Eviction(load.node.name, tuple(victims))


def _without(load: NodeLoad, lesser: Sequence[Tenant]) -> NodeLoad:
    leaving = {one.pod.metadata.uid for one in lesser}
    copy = load_of(load.node)
    for uid, other in load.tenants.items():
        if uid not in leaving:
            copy.add(other)
    return copy


def _cost(option: Eviction) -> tuple[int, int, int, str]:
    priorities = [pod.spec.priority for pod in option.victims]
    return max(priorities, default=0), sum(priorities), len(priorities), option.node
