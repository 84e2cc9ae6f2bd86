"""Chooses Pods of lower priority to delete so that a Pod fits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from manta.localplane.builtin.views import Pod
from manta.localplane.scheduler.node_cache import NodeInfo, PodInfo, empty_node
from manta.localplane.scheduler.placement import (
    AFFINITY_MISMATCH,
    POD_AFFINITY,
    UNSCHEDULABLE,
    UNTOLERATED,
    NoFit,
    cluster_info,
    summary,
    unfit_reasons,
)

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
_CLAIMS = "no new claims to deallocate,"
"""Part of the message of kube-scheduler; there are no device claims here."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """The Pod fits on the node after the victims are deleted."""

    node: str
    victims: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class NoPreemption:
    """Preemption does not help; the message is appended to that of the placement."""

    message: str


def preempt(one: PodInfo, no_fit: NoFit, nodes: Sequence[NodeInfo]) -> Preemption | NoPreemption:
    """Return the node with the least important and fewest victims, or why there is none."""
    if one.pod.spec.preemption_policy == "Never":
        return NoPreemption(f"{_CLAIMS} preemption: not eligible due to preemptionPolicy=Never.")
    reasons: dict[str, tuple[str, ...]] = {}
    options: list[Preemption] = []
    for info in nodes:
        name = info.node.name
        if not _may_help(one, no_fit.reasons.get(name, ()), info):
            reasons[name] = (NOT_HELPFUL,)
        elif option := _preemption_on(one, info, nodes):
            options.append(option)
        else:
            reasons[name] = (NO_VICTIMS,)
    if options:
        return min(options, key=_cost)
    message = f"{_CLAIMS} preemption: {summary(len(nodes), reasons.values())}"
    return NoPreemption(message if nodes else "")


def _may_help(one: PodInfo, reasons: Iterable[str], info: NodeInfo) -> bool:
    """Preemption changes neither labels nor taints nor the size of a node."""
    if any(why in (AFFINITY_MISMATCH, UNSCHEDULABLE, POD_AFFINITY, UNTOLERATED) for why in reasons):
        return False
    return all(amount <= info.capacity.get(name, 0) for name, amount in one.requests.items())


def _preemption_on(one: PodInfo, info: NodeInfo, nodes: Sequence[NodeInfo]) -> Preemption | None:
    """Remove all Pods of lower priority, then add back the most important ones while the Pod fits."""
    priority = one.pod.spec.priority
    lower = [other for other in info.pods.values() if other.pod.spec.priority < priority]
    if not lower or any(other.pod.is_deleting for other in lower):
        # Pods are being preempted already: wait instead of deleting more.
        return None
    emptied = _without(info, lower)
    others = cluster_info([emptied if other is info else other for other in nodes])
    if unfit_reasons(one, emptied, others):
        return None
    victims: list[Pod] = []
    for other in sorted(lower, key=lambda it: (-it.pod.spec.priority, it.pod.metadata.name)):
        emptied.add(other)
        if unfit_reasons(one, emptied, others):
            emptied.remove(other.pod.metadata.uid)
            victims.append(other.pod)
    return Preemption(info.node.name, tuple(victims))


def _without(info: NodeInfo, lower: Sequence[PodInfo]) -> NodeInfo:
    leaving = {one.pod.metadata.uid for one in lower}
    copy = empty_node(info.node)
    for uid, other in info.pods.items():
        if uid not in leaving:
            copy.add(other)
    return copy


def _cost(option: Preemption) -> tuple[int, int, int, str]:
    priorities = [pod.spec.priority for pod in option.victims]
    return max(priorities, default=0), sum(priorities), len(priorities), option.node
