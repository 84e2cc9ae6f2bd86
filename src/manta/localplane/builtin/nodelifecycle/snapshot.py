"""One node, its Pods, and the last heartbeat of its kubelet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from manta.localplane.builtin.views import Node, Pod

GRACE = timedelta(seconds=50)
"""Kubernetes' default; a Lease is renewed every 10 s."""
QUARANTINE = timedelta(seconds=40)
"""How long the Pods of a node that is not there are left alone: it may be about to register."""


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    name: str
    node: Node | None
    """None when it is gone."""
    pods: tuple[Pod, ...]
    """The Pods that are bound to it."""
    last_heartbeat: datetime
    """The last heartbeat; for a node that is gone, when we noticed."""
    now: datetime
