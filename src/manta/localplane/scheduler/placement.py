"""Chooses the node of a Pod: filter, then score. Pure and deterministic.

The filters run in the order of kube-scheduler, so that the reasons form the same message. Of nodes
with equal scores the first by name wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from manta.api import selectors
from manta.api.well_known import TAINT_UNSCHEDULABLE
from manta.localplane.builtin.views import (
    Node,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    Requirement,
    Taint,
    Toleration,
)
from manta.localplane.scheduler.node_cache import NodeInfo, PodInfo

MAX_CANDIDATES = 100
"""Nodes that are scored at most; more cost time and rarely give a better node."""

UNSCHEDULABLE_TAINT = Taint(key=TAINT_UNSCHEDULABLE, effect="NoSchedule")
AFFINITY_MISMATCH = "node(s) didn't match Pod's node affinity/selector"
UNSCHEDULABLE = "node(s) were unschedulable"
UNTOLERATED = "node(s) had untolerated taint(s)"
PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"
POD_AFFINITY = "node(s) didn't match pod affinity rules"
POD_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
OTHERS_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass(frozen=True, slots=True)
class Placement:
    node: str


@dataclass(frozen=True, slots=True)
class NoFit:
    """No node fits: the reasons by node name."""

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
class ClusterInfo:
    """All nodes, and the few with Pods that have required anti-affinity."""

    nodes: Sequence[NodeInfo]
    with_anti_affinity: Sequence[NodeInfo]


def cluster_info(nodes: Sequence[NodeInfo]) -> ClusterInfo:
    return ClusterInfo(nodes, [info for info in nodes if info.with_anti_affinity])


def place(one: PodInfo, nodes: Sequence[NodeInfo], start: int = 0) -> Placement | NoFit:
    """Return the node for a Pod, or why none fits.

    `start` is the node where the search begins, so that large clusters use all nodes.
    """
    reasons: dict[str, tuple[str, ...]] = {}
    candidates: list[NodeInfo] = []
    cluster = cluster_info(nodes)
    for info in (*nodes[start:], *nodes[:start]):
        if why := unfit_reasons(one, info, cluster):
            reasons[info.node.name] = why
        else:
            candidates.append(info)
            if len(candidates) == MAX_CANDIDATES:
                break
    if not candidates:
        return NoFit(reasons)
    return Placement(min(candidates, key=_rank(one, candidates)).node.name)


def unfit_reasons(one: PodInfo, info: NodeInfo, cluster: ClusterInfo) -> tuple[str, ...]:
    """Return the reasons of the first filter that fails; () if the Pod fits."""
    for rule in (_unschedulable, _untolerated, _affinity, _ports, _resources):
        if why := rule(one, info):
            return why
    return _pod_affinity(one, info, cluster)


# ── filters ──────────────────────────────────────────────────────────────────────────────
def _unschedulable(one: PodInfo, info: NodeInfo) -> tuple[str, ...]:
    if not info.node.spec.unschedulable:
        return ()
    tolerated = is_tolerated(UNSCHEDULABLE_TAINT, one.pod.spec.tolerations or ())
    return () if tolerated else (UNSCHEDULABLE,)


def _untolerated(one: PodInfo, info: NodeInfo) -> tuple[str, ...]:
    for taint in info.node.spec.taints or ():
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


def _affinity(one: PodInfo, info: NodeInfo) -> tuple[str, ...]:
    node = info.node
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
    """Return whether all requirements match; an empty term matches no node."""
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


def _ports(one: PodInfo, info: NodeInfo) -> tuple[str, ...]:
    taken = any(info.ports[port] > 0 for port in one.ports)
    return (PORTS_TAKEN,) if taken else ()


def _resources(one: PodInfo, info: NodeInfo) -> tuple[str, ...]:
    short = [
        f"Insufficient {name}"
        for name, amount in one.requests.items()
        if amount > 0 and amount > info.free.get(name, 0)
    ]
    full = [TOO_MANY_PODS] if len(info.pods) >= info.pod_limit else []
    return (*full, *short)


# ── affinity between Pods ────────────────────────────────────────────────────────────────
def _pod_affinity(one: PodInfo, info: NodeInfo, cluster: ClusterInfo) -> tuple[str, ...]:
    affinity, nodes = one.pod.spec.affinity, cluster.nodes
    for term in (affinity and affinity.pod_affinity and affinity.pod_affinity.required) or ():
        # The first Pod with affinity to its own group may go anywhere.
        alone = _matcher(term, one.pod)(one.pod) and not _matches_anywhere(term, one.pod, nodes)
        if not alone and not _in_domain(term, one.pod, info, nodes):
            return (POD_AFFINITY,)
    anti = affinity and affinity.pod_anti_affinity
    for term in (anti and anti.required) or ():
        if _in_domain(term, one.pod, info, nodes):
            return (POD_ANTI_AFFINITY,)
    return _existing_anti_affinity(one.pod, info, cluster.with_anti_affinity)


def _existing_anti_affinity(
    pod: Pod, info: NodeInfo, with_anti_affinity: Sequence[NodeInfo]
) -> tuple[str, ...]:
    """Anti-affinity is symmetric: existing Pods may exclude the new one."""
    for other in with_anti_affinity:
        for one in other.with_anti_affinity.values():
            affinity = one.pod.spec.affinity
            anti = affinity and affinity.pod_anti_affinity
            for term in (anti and anti.required) or ():
                near = _same_domain(term.topology_key, info, other)
                if near and _matcher(term, one.pod)(pod):
                    return (OTHERS_ANTI_AFFINITY,)
    return ()


def _in_domain(term: PodAffinityTerm, pod: Pod, info: NodeInfo, nodes: Sequence[NodeInfo]) -> bool:
    matches = _matcher(term, pod)
    return any(
        _same_domain(term.topology_key, info, other)
        and any(matches(one.pod) for one in other.pods.values())
        for other in nodes
    )


def _matches_anywhere(term: PodAffinityTerm, pod: Pod, nodes: Sequence[NodeInfo]) -> bool:
    matches = _matcher(term, pod)
    return any(matches(one.pod) for info in nodes for one in info.pods.values())


def _same_domain(topology: str, one: NodeInfo, other: NodeInfo) -> bool:
    here = one.node.metadata.labels.get(topology)
    return here is not None and here == other.node.metadata.labels.get(topology)


def _matcher(term: PodAffinityTerm, of: Pod) -> Callable[[Pod], bool]:
    """Return whether a Pod matches a term of the Pod `of`. The selector is parsed once: a Pod may have
    thousands of terms, and the API server runs in the same process."""
    if term.label_selector is None:
        return lambda _: False
    namespaces = term.namespaces or (of.metadata.namespace,)
    selector = selectors.from_object(term.label_selector)
    return lambda one: (
        one.metadata.namespace in namespaces and selector.matches(one.metadata.labels)
    )


# ── scores ───────────────────────────────────────────────────────────────────────────────
def _rank(one: PodInfo, candidates: Sequence[NodeInfo]) -> Callable[[NodeInfo], tuple[float, str]]:
    owner = one.pod.metadata.controller
    most = max((info.siblings[owner.uid] for info in candidates), default=0) if owner else 0

    def rank(info: NodeInfo) -> tuple[float, str]:
        score = _free_share(one, info) + _preference(one.pod, info.node)
        if owner and most:
            score += 100 - 100 * info.siblings[owner.uid] / most
        score -= _soft_taints(one.pod, info.node)
        return -score, info.node.name

    return rank


def _free_share(one: PodInfo, info: NodeInfo) -> float:
    """Return the mean percentage of CPU and memory that stays free with the Pod."""
    shares = [
        100 * max(0, info.free.get(name, 0) - one.requests.get(name, 0)) / total
        for name in ("cpu", "memory")
        if (total := info.capacity.get(name, 0))
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
