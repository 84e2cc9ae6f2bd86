"""Which node a Pod goes to, or why none: filter, then score. Pure, and the same every time.

The order of the filters is that of Kubernetes' scheduler, so the reasons add up to the same
message. Of two nodes with equal scores the one with the lesser name wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from manta.api import selectors
from manta.localplane.builtin.views import (
    Node,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    Requirement,
    Taint,
    Toleration,
)
from manta.localplane.scheduler.ledger import NodeLoad, Tenant

ENOUGH_CHOICE = 100
"""Scoring more candidates than this costs time and finds no better node."""

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
AFFINITY_MISMATCH = "node(s) didn't match Pod's node affinity/selector"
UNSCHEDULABLE = "node(s) were unschedulable"
UNTOLERATED = "node(s) had untolerated taint(s)"
PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"
POD_AFFINITY = "node(s) didn't match pod affinity rules"
POD_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
OTHERS_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass(frozen=True, slots=True)
class Chosen:
    node: str


@dataclass(frozen=True, slots=True)
class Nowhere:
    """No node takes the Pod: the reasons by node name."""

    reasons: Mapping[str, tuple[str, ...]]

    def message(self) -> str:
        if not self.reasons:
            return "no nodes available to schedule pods"
        return summary(len(self.reasons), self.reasons.values())


def summary(nodes: int, reasons: Iterable[Iterable[str]]) -> str:
    """`0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.`"""
    counted = Counter(reason for several in reasons for reason in several)
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counted.items()))
    return f"0/{nodes} nodes are available: {listed}."


@dataclass(frozen=True, slots=True)
class Around:
    """All nodes, and those with tenants that keep others away: few, so they are found once."""

    loads: Sequence[NodeLoad]
    guarded: Sequence[NodeLoad]


def around(loads: Sequence[NodeLoad]) -> Around:
    return Around(loads, [load for load in loads if load.unsociable])


def place(one: Tenant, loads: Sequence[NodeLoad], start: int = 0) -> Chosen | Nowhere:
    """Choose a node for the Pod.

    `start` rotates where the search begins, so that with many nodes not only the first are used.
    """
    reasons: dict[str, tuple[str, ...]] = {}
    candidates: list[NodeLoad] = []
    everywhere = around(loads)
    for load in (*loads[start:], *loads[:start]):
        if why := refusals(one, load, everywhere):
            reasons[load.node.name] = why
        else:
            candidates.append(load)
            if len(candidates) == ENOUGH_CHOICE:
                break
    if not candidates:
        return Nowhere(reasons)
    return Chosen(min(candidates, key=_rank(one, candidates)).node.name)


def refusals(one: Tenant, load: NodeLoad, everywhere: Around) -> tuple[str, ...]:
    """Why this node does not take the Pod; empty when it does. The first failing rule speaks."""
    for rule in (_unschedulable, _untolerated, _affinity, _ports, _resources):
        if why := rule(one, load):
            return why
    return _pod_affinity(one, load, everywhere)


# ── filters ──────────────────────────────────────────────────────────────────────────────
def _unschedulable(one: Tenant, load: NodeLoad) -> tuple[str, ...]:
    if not load.node.spec.unschedulable:
        return ()
    tolerated = is_tolerated(UNSCHEDULABLE_TAINT, one.pod.spec.tolerations or ())
    return () if tolerated else (UNSCHEDULABLE,)


def _untolerated(one: Tenant, load: NodeLoad) -> tuple[str, ...]:
    for taint in load.node.spec.taints or ():
        hard = taint.effect in ("NoSchedule", "NoExecute")
        if hard and not is_tolerated(taint, one.pod.spec.tolerations or ()):
            return (UNTOLERATED,)
    return ()


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    if toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def _affinity(one: Tenant, load: NodeLoad) -> tuple[str, ...]:
    node = load.node
    for label, value in (one.pod.spec.node_selector or {}).items():
        if node.metadata.labels.get(label) != value:
            return (AFFINITY_MISMATCH,)
    wanted = one.pod.spec.affinity and one.pod.spec.affinity.node_affinity
    if wanted and wanted.required:
        terms = wanted.required.node_selector_terms
        if not any(term_matches(term, node) for term in terms):
            return (AFFINITY_MISMATCH,)
    return ()


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Requirements of one term are joined by *and*; an empty term matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.name}
    return all(
        _requirement_holds(one, node.metadata.labels) for one in term.match_expressions or ()
    ) and all(_requirement_holds(one, fields) for one in term.match_fields or ())


def _requirement_holds(one: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(one.key)
    values = one.values or ()
    match one.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, values, greater=one.operator == "Gt")
        case _:
            return False


def _compares(value: str | None, bounds: Sequence[str], *, greater: bool) -> bool:
    try:
        here, bound = int(value or ""), int(bounds[0])
    except (ValueError, IndexError):
        return False
    return here > bound if greater else here < bound


def _ports(one: Tenant, load: NodeLoad) -> tuple[str, ...]:
    taken = any(load.ports[port] > 0 for port in one.ports)
    return (PORTS_TAKEN,) if taken else ()


def _resources(one: Tenant, load: NodeLoad) -> tuple[str, ...]:
    short = [
        f"Insufficient {name}"
        for name, amount in one.demand.items()
        if amount > 0 and amount > load.free.get(name, 0)
    ]
    full = [TOO_MANY_PODS] if len(load.tenants) >= load.pod_limit else []
    return (*full, *short)


# ── affinity between Pods ────────────────────────────────────────────────────────────────
def _pod_affinity(one: Tenant, load: NodeLoad, everywhere: Around) -> tuple[str, ...]:
    affinity, loads = one.pod.spec.affinity, everywhere.loads
    for term in (affinity and affinity.pod_affinity and affinity.pod_affinity.required) or ():
        # The first Pod of a group that wants to be together may go anywhere.
        alone = _chooser(term, one.pod)(one.pod) and not _anywhere(term, one.pod, loads)
        if not alone and not _in_domain(term, one.pod, load, loads):
            return (POD_AFFINITY,)
    anti = affinity and affinity.pod_anti_affinity
    for term in (anti and anti.required) or ():
        if _in_domain(term, one.pod, load, loads):
            return (POD_ANTI_AFFINITY,)
    return _kept_away(one.pod, load, everywhere.guarded)


def _kept_away(pod: Pod, load: NodeLoad, guarded: Sequence[NodeLoad]) -> tuple[str, ...]:
    """Anti-affinity holds both ways: Pods that are there may refuse a newcomer."""
    for other in guarded:
        for one in other.unsociable.values():
            affinity = one.pod.spec.affinity
            anti = affinity and affinity.pod_anti_affinity
            for term in (anti and anti.required) or ():
                near = _same_domain(term.topology_key, load, other)
                if near and _chooser(term, one.pod)(pod):
                    return (OTHERS_ANTI_AFFINITY,)
    return ()


def _in_domain(term: PodAffinityTerm, pod: Pod, load: NodeLoad, loads: Sequence[NodeLoad]) -> bool:
    chooses = _chooser(term, pod)
    return any(
        _same_domain(term.topology_key, load, other)
        and any(chooses(one.pod) for one in other.tenants.values())
        for other in loads
    )


def _anywhere(term: PodAffinityTerm, pod: Pod, loads: Sequence[NodeLoad]) -> bool:
    chooses = _chooser(term, pod)
    return any(chooses(one.pod) for load in loads for one in load.tenants.values())


def _same_domain(topology: str, one: NodeLoad, other: NodeLoad) -> bool:
    here = one.node.metadata.labels.get(topology)
    return here is not None and here == other.node.metadata.labels.get(topology)


def _chooser(term: PodAffinityTerm, of: Pod) -> Callable[[Pod], bool]:
    """Whether a Pod is one that a term of the Pod `of` is about. Its selector is read once, not for
    every Pod: a Pod may have thousands of terms, and the API server waits in the same process."""
    if term.label_selector is None:
        return lambda _: False
    namespaces = term.namespaces or (of.metadata.namespace,)
    selector = selectors.from_object(term.label_selector)
    return lambda one: (
        one.metadata.namespace in namespaces and selector.matches(one.metadata.labels)
    )


# ── scores ───────────────────────────────────────────────────────────────────────────────
def _rank(one: Tenant, candidates: Sequence[NodeLoad]) -> Callable[[NodeLoad], tuple[float, str]]:
    owner = one.pod.metadata.controller
    most = max((load.siblings[owner.uid] for load in candidates), default=0) if owner else 0

    def rank(load: NodeLoad) -> tuple[float, str]:
        score = _room_left(one, load) + _preference(one.pod, load.node)
        if owner and most:
            score += 100 - 100 * load.siblings[owner.uid] / most
        score -= _soft_taints(one.pod, load.node)
        return -score, load.node.name

    return rank


def _room_left(one: Tenant, load: NodeLoad) -> float:
    """Mean share of CPU and memory that stays free with the Pod on it, 0 to 100."""
    shares = [
        100 * max(0, load.free.get(name, 0) - one.demand.get(name, 0)) / total
        for name in ("cpu", "memory")
        if (total := load.capacity.get(name, 0))
    ]
    return sum(shares) / len(shares) if shares else 0.0


def _preference(pod: Pod, node: Node) -> int:
    wanted = pod.spec.affinity and pod.spec.affinity.node_affinity
    terms = (wanted and wanted.preferred) or ()
    return sum(term.weight for term in terms if term_matches(term.preference, node))


def _soft_taints(pod: Pod, node: Node) -> int:
    return sum(
        100
        for taint in node.spec.taints or ()
        if taint.effect == "PreferNoSchedule"
        and not is_tolerated(taint, pod.spec.tolerations or ())
    )
