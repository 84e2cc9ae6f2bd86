"""On which nodes the Pods of a DaemonSet may start and stay, and the Pod of one node. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from manta.api.resources import DAEMON_SETS
from manta.api.well_known import TAINT_UNSCHEDULABLE
from manta.localplane.builtin.deployment.snapshot import template_hash
from manta.localplane.builtin.owned_pods import pod_from_template
from manta.localplane.builtin.revisions import HASH_LABEL
from manta.localplane.builtin.views import Node, Pod, PodSpec, Taint, Toleration
from manta.localplane.builtin.workload_views import DaemonSet
from manta.localplane.scheduler.placement import is_tolerated, term_matches

GENERATION = "deprecated.daemonset.template.generation"
_UNSCHEDULABLE = Taint(key=TAINT_UNSCHEDULABLE, effect="NoSchedule")
_NAME_FIELD = "metadata.name"


@dataclass(frozen=True, slots=True)
class Eligibility:
    may_start: bool
    may_stay: bool


def eligibility(template: Mapping[str, Any], node: Node) -> Eligibility:
    """A node that does not match neither takes nor keeps a Pod; a NoSchedule taint keeps those
    that run there."""
    spec = msgspec.convert(template.get("spec") or {}, PodSpec)
    if not _matches(spec, node):
        return Eligibility(may_start=False, may_stay=False)
    tolerations = (*(spec.tolerations or ()), *_tolerations(spec))
    taints = list(node.spec.taints or ())
    if node.spec.unschedulable:
        taints.append(_UNSCHEDULABLE)
    refused = {taint.effect for taint in taints if not is_tolerated(taint, tolerations)}
    return Eligibility(
        may_start=not refused & {"NoSchedule", "NoExecute"}, may_stay="NoExecute" not in refused
    )


def _matches(spec: PodSpec, node: Node) -> bool:
    if spec.node_name and spec.node_name != node.name:
        return False
    labels = node.metadata.labels
    if any(labels.get(name) != value for name, value in (spec.node_selector or {}).items()):
        return False
    affinity = spec.affinity and spec.affinity.node_affinity
    if not affinity or not affinity.required:
        return True
    return any(term_matches(term, node) for term in affinity.required.node_selector_terms)


def _tolerations(spec: PodSpec) -> tuple[Toleration, ...]:
    """A daemon runs on nodes that are not ready, under pressure or closed to other Pods."""
    taints = [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ]
    if spec.host_network:
        taints.append(("network-unavailable", "NoSchedule"))
    return tuple(
        Toleration(key=f"node.kubernetes.io/{name}", operator="Exists", effect=effect)
        for name, effect in taints
    )


def node_of(pod: Pod) -> str:
    """The node that a Pod is bound to, or that its affinity names; empty where neither does."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    for term in terms:
        for one in term.match_fields or ():
            if one.key == _NAME_FIELD and one.operator == "In" and len(one.values or ()) == 1:
                return (one.values or ("",))[0]
    return ""


def new_pod(daemon_set: DaemonSet, node: str) -> dict[str, Any]:
    """The template's own node affinity is dropped: this node was found to match it."""
    template, meta = daemon_set.spec.template, daemon_set.metadata
    pod = pod_from_template(DAEMON_SETS, meta, template, generateName=f"{meta.name}-")
    labels = {
        **(pod["metadata"].get("labels") or {}),
        HASH_LABEL: template_hash(template),
        "pod-template-generation": meta.annotations.get(GENERATION, "1"),
    }
    spec = pod["spec"]
    added = msgspec.to_builtins(_tolerations(msgspec.convert(spec, PodSpec)))
    return {
        **pod,
        "metadata": {**pod["metadata"], "labels": labels},
        "spec": {
            **spec,
            "affinity": _affinity(spec.get("affinity") or {}, node),
            "tolerations": [*(spec.get("tolerations") or ()), *added],
        },
    }


def _affinity(affinity: Mapping[str, Any], node: str) -> dict[str, Any]:
    by_name = {"key": _NAME_FIELD, "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [by_name]}]}
    return {
        **affinity,
        "nodeAffinity": {
            **(affinity.get("nodeAffinity") or {}),
            "requiredDuringSchedulingIgnoredDuringExecution": required,
        },
    }
