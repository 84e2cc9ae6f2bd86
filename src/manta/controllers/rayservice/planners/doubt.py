"""Pods that are waited for, and may have become ready unseen (C49).

A watch that loses one event says nothing for ever. So what a start or an upgrade waits for is read from
the server itself now and then: level-triggered to the end. At rest nobody is doubted.
"""

from __future__ import annotations

from datetime import timedelta

from manta.api.core import Pod
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.controllers.rayservice.step import Step
from manta.rules.pod_health import is_ready

LOOK_AFTER = timedelta(seconds=20)
MOST = 10
"""Of a large cluster a few at a time: it needs one Pod that takes requests, not all of them."""


def doubtful(seen: ServiceSnapshot) -> tuple[Pod, ...]:
    """The Pods of a pending cluster that are not ready, and a head that is not."""
    heads = [one.head_pod for one in (seen.pending, seen.active) if one is not None]
    pods = [*heads, *(seen.pending.pods if seen.pending is not None else ())]
    unready = {pod.metadata.uid: pod for pod in pods if pod is not None and not is_ready(pod)}
    return tuple(unready.values())[:MOST]


def plan_look(seen: ServiceSnapshot) -> Step:
    return Step(timer=LOOK_AFTER if doubtful(seen) else None)
