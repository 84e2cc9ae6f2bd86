"""Pods on their way out. They keep their place until they are gone, so that a cluster never
holds more than it asked for; but a Pod whose node was lost does not keep it for ever."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from manta.api.core import Pod
from manta.api.times import parse_time
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.rules.pod_health import is_terminating

PATIENCE: Final = timedelta(seconds=30)
"""How long after its grace period a Pod may still be expected to go by itself."""


def still_counts(seen: ClusterSnapshot, pod: Pod) -> bool:
    """True for a living Pod, and for one that is still within its time to go."""
    gone_by = pod.metadata.deletion_timestamp
    return gone_by is None or seen.now < parse_time(gone_by) + PATIENCE


def is_stuck(seen: ClusterSnapshot, pod: Pod) -> bool:
    return is_terminating(pod) and not still_counts(seen, pod)
