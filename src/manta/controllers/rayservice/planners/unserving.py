"""Workers that should take requests and do not (C51): replaced only where the user asks for it.

Liveness knows nothing of Serve, and must not: a worker without a replica has no proxy and is well. So a
worker is replaced only if the RayService says after how long, if Serve itself keeps a proxy on it, if
all applications run (what is only being deployed costs no Pod), and one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from manta.api.conditions import find
from manta.api.core import Pod
from manta.api.resources import PODS
from manta.api.times import parse_optional_time
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.planners.serve import current_order, is_told, runs_all
from manta.controllers.rayservice.snapshot import ClusterSight, ServiceSnapshot, Told
from manta.controllers.rayservice.step import NO_STEP, Step
from manta.reconcile.actions import Delete
from manta.reconcile.plan import do
from manta.rules.pod_health import is_ready, is_running, is_terminating
from manta.rules.validation.service import unserving_limit
from manta.rules.validation.violation import Violation


def plan_unserving(seen: ServiceSnapshot) -> Step:
    limit, active = unserving_limit(seen.service), seen.active
    if limit is None or isinstance(limit, Violation) or active is None or active.is_going:
        return NO_STEP
    if not _is_well_otherwise(seen, active) or any(map(is_terminating, active.pods)):
        return NO_STEP
    out = sorted(_out_of_service(active), key=lambda one: (one[0], one[1].metadata.name))
    if not out:
        return NO_STEP
    since, pod = out[0]
    left = since + limit - seen.now
    if left > timedelta(0):
        return Step(timer=left)
    why = f"its Serve proxy has taken no request since {since:%H:%M:%S}"
    meta = pod.metadata
    return Step(do(Delete(PODS, meta.key, meta.uid, Cause.REPLACE_WORKER, why), independent=True))


def _is_well_otherwise(seen: ServiceSnapshot, active: ClusterSight) -> bool:
    order = current_order(seen, active)
    return is_told(active, order) and runs_all(active, order)


def _out_of_service(active: ClusterSight) -> Iterator[tuple[datetime, Pod]]:
    """Workers with a proxy that do not pass their readiness probe, and since when."""
    assert isinstance(active.answer, Told)
    for pod in active.pods:
        if pod is active.head_pod or not is_running(pod) or is_ready(pod):
            continue
        ready = find(pod.status.conditions, "Ready")
        since = parse_optional_time(ready.last_transition_time) if ready else None
        if since is not None and pod.status.pod_ip in active.answer.proxies:
            yield since, pod
