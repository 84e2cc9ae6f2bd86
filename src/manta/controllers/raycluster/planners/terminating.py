"""Pods that are being deleted. They count until they are gone, so that a cluster never holds more
than it asked for; but a Pod that does not go away does not count for ever."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from manta.api.core import Pod
from manta.api.times import parse_time
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.rules.pod_health import Phase, is_terminating

PATIENCE: Final = timedelta(seconds=30)
"""How long after its grace period a Pod may still be expected to go by itself."""


def still_counts(seen: ClusterSnapshot, pod: Pod) -> bool:
    """True for a living Pod, and for one that is still within its time to go."""
    gone_by = pod.metadata.deletion_timestamp
    return gone_by is None or seen.now < parse_time(gone_by) + PATIENCE


def is_stuck(seen: ClusterSnapshot, pod: Pod) -> bool:
    return is_terminating(pod) and not still_counts(seen, pod)


def lost_because(seen: ClusterSnapshot, pod: Pod) -> str:
    """Why a Pod that is stuck is known not to run; empty when it may.

    A Node that does not answer is no proof. Its containers may go on, and a second head beside them
    would split the cluster.
    """
    if not is_stuck(seen, pod):
        return ""
    if pod.status.phase in (Phase.FAILED, Phase.SUCCEEDED):
        return "its containers have ended"
    if not pod.spec.node_name:
        return "it never had a Node"
    return seen.lost_nodes.get(pod.spec.node_name, "")
