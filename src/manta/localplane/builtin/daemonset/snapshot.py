"""The snapshot of a DaemonSet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from manta.api.revisions import ControllerRevision
from manta.localplane.builtin.daemonset.eligibility import Eligibility, eligibility, node_of
from manta.localplane.builtin.deployment.snapshot import template_hash
from manta.localplane.builtin.owned_pods import is_available, selects
from manta.localplane.builtin.revisions import HASH_LABEL
from manta.localplane.builtin.views import Node, Pod
from manta.localplane.builtin.workload_views import DaemonSet


@dataclass(frozen=True, slots=True)
class DaemonSetSnapshot:
    daemon_set: DaemonSet
    pods: tuple[Pod, ...]
    """The Pods that it controls."""
    orphans: tuple[Pod, ...]
    """Pods of the namespace without a controller."""
    revisions: tuple[ControllerRevision, ...]
    nodes: tuple[Node, ...]
    now: datetime

    @property
    def by_node(self) -> dict[str, list[Pod]]:
        """Own Pods that the selector matches, by the node that they are for; the oldest first."""
        found: dict[str, list[Pod]] = {}
        for pod in sorted(self.pods, key=_age):
            if selects(self.daemon_set, pod):
                found.setdefault(node_of(pod), []).append(pod)
        return found

    def eligibilities(self) -> dict[str, Eligibility]:
        nodes = sorted(self.nodes, key=lambda node: node.name)
        return {node.name: eligibility(self.daemon_set.spec.template, node) for node in nodes}

    @property
    def update_hash(self) -> str:
        return template_hash(self.daemon_set.spec.template)

    def is_updated(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(HASH_LABEL) == self.update_hash

    def is_available(self, pod: Pod) -> bool:
        seconds = self.daemon_set.spec.min_ready_seconds
        return not pod.is_deleting and is_available(pod, seconds, self.now)


def _age(pod: Pod) -> tuple[bool, str, str]:
    return not pod.spec.node_name, pod.metadata.creation_timestamp, pod.metadata.name
