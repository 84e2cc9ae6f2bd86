"""Replaces workers whose Serve proxy is not ready (C51), if the user asks for it.

A liveness probe cannot check Serve: a worker without a replica has no proxy and is healthy. So a worker
is replaced only after the time that the RayService sets, if Serve runs a proxy on it, and if all
applications run, so that a deployment in progress costs no Pod. One worker at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from manta.api.conditions import find
from manta.api.core import Pod
from manta.api.resources import PODS
from manta.api.times import parse_optional_time
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.facts.serve import (
    all_applications_running,
    current_desired_serve,
    is_submitted,
)
from manta.controllers.rayservice.snapshot import ClusterView, DashboardReply, ServiceSnapshot
from manta.controllers.rayservice.status_changes import ServiceStep
from manta.reconcile.actions import Delete
from manta.reconcile.plan import do
from manta.reconcile.step import Step
from manta.rules.pod_health import is_ready, is_running, is_terminating
from manta.rules.validation.service import unserving_limit
from manta.rules.validation.violation import Violation


def plan_worker_replacement(snapshot: ServiceSnapshot) -> ServiceStep:
    limit, active = unserving_limit(snapshot.service), snapshot.active
    if limit is None or isinstance(limit, Violation) or active is None or active.is_deleting:
        return Step()
    if not _serve_is_healthy(snapshot, active) or any(map(is_terminating, active.pods)):
        return Step()
    unready = sorted(_unready_workers(active), key=lambda one: (one[0], one[1].metadata.name))
    if not unready:
        return Step()
    since, pod = unready[0]
    left = since + limit - snapshot.now
    if left > timedelta(0):
        return Step(wake_in=left)
    why = f"its Serve proxy has taken no request since {since:%H:%M:%S}"
    meta = pod.metadata
    return Step(do(Delete(PODS, meta.key, meta.uid, Cause.REPLACE_WORKER, why), independent=True))


def _serve_is_healthy(snapshot: ServiceSnapshot, active: ClusterView) -> bool:
    desired = current_desired_serve(snapshot, active)
    return is_submitted(active, desired) and all_applications_running(active, desired)


def _unready_workers(active: ClusterView) -> Iterator[tuple[datetime, Pod]]:
    """Workers with a proxy that fail their readiness probe, and since when."""
    assert isinstance(active.answer, DashboardReply)
    for pod in active.pods:
        if pod is active.head_pod or not is_running(pod) or is_ready(pod):
            continue
        ready = find(pod.status.conditions, "Ready")
        since = parse_optional_time(ready.last_transition_time) if ready else None
        if since is not None and pod.status.pod_ip in active.answer.proxies:
            yield since, pod
