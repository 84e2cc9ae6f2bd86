"""Why a cluster cannot take traffic, as a message that names the object at fault.

Checked in this order: the head, the dashboard, the applications, a Pod that takes requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from manta.api.conditions import find
from manta.api.ray.cluster import ClusterConditionType
from manta.api.ray.service import ApplicationStatusWord, AppStatus
from manta.controllers.rayservice.snapshot import (
    ClusterView,
    DashboardReply,
    DashboardUnreachable,
    NotQueried,
)
from manta.rules.pod_health import blockage


def obstacle(
    view: ClusterView, applications: Sequence[str], *, needs_ready_pod: bool = True
) -> str:
    """Why this cluster cannot take requests; empty if it can.

    `needs_ready_pod` is False for a first cluster: no traffic can be lost by a switch, and its
    workers may be created only by the first requests.
    """
    name = view.name
    if not view.head_is_ready:
        return f"RayCluster {name}: {_head_obstacle(view)}"
    match view.answer:
        case NotQueried():
            return waiting_for_serve(name)
        case DashboardUnreachable(why=why):
            return f"the dashboard of RayCluster {name} does not answer: {why}"
        case DashboardReply(applications=reported):
            return _applications(reported, applications, name) or (
                _no_ready_pod(view) if needs_ready_pod else ""
            )


def waiting_for_serve(name: str) -> str:
    """The same message from a ready head until Serve reports the applications."""
    return f"waiting for Serve on RayCluster {name} to start the applications"


def _applications(reported: Mapping[str, AppStatus], wanted: Sequence[str], name: str) -> str:
    if not wanted:
        return "spec.serveConfigV2 declares no application"
    if not any(one in reported for one in wanted):
        return waiting_for_serve(name)
    problems = [text for one in wanted if (text := _application(reported.get(one), one))]
    if not problems:
        return ""
    others = f" (and {len(problems) - 1} more applications)" if len(problems) > 1 else ""
    return f"on RayCluster {name} {problems[0]}{others}"


def _application(status: AppStatus | None, name: str) -> str:
    if status is None:
        return f'application "{name}" is not known to Serve yet'
    if status.status == ApplicationStatusWord.RUNNING:
        return ""
    detail = f": {_one_line(status.message)}" if status.message else ""
    deployments = "; ".join(_deployments(status))
    return f'application "{name}" is {status.status or "unknown"}{detail}' + (
        f"; {deployments}" if deployments else ""
    )


def _deployments(status: AppStatus) -> Iterator[str]:
    for name, deployment in status.serve_deployment_statuses.items():
        if deployment.status != "HEALTHY":
            detail = f": {_one_line(deployment.message)}" if deployment.message else ""
            yield f'deployment "{name}" is {deployment.status}{detail}'


def _one_line(text: str, longest: int = 500) -> str:
    """Keep the end of a long text: it says most in a traceback."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:80]} ... {line[-(longest - 80) :]}"


def _no_ready_pod(view: ClusterView) -> str:
    """Serve is healthy, but a switch would lose requests if no Pod takes them."""
    if view.serving_pods:
        return ""
    blocked_by = (blockage(pod) for pod in view.pods if pod is not view.head_pod)
    why = next((one.message for one in blocked_by if one is not None), "") or _trouble(view)
    if not why and view.proxy_healthy is False:
        why = "the Serve proxy on the head does not answer"
    return f"no Pod of RayCluster {view.name} takes requests yet" + (f": {why}" if why else "")


def _head_obstacle(view: ClusterView) -> str:
    """The message of the cluster's condition (C29), or why its head Pod does not start."""
    if trouble := _trouble(view):
        return trouble
    blocked_by = blockage(view.head_pod) if view.head_pod is not None else None
    return blocked_by.message if blocked_by is not None else "waiting for its head Pod to be ready"


def _trouble(view: ClusterView) -> str:
    """What the RayCluster says about itself; empty if it is well."""
    for type_ in (ClusterConditionType.BLOCKED, ClusterConditionType.REPLICA_FAILURE):
        condition = find(view.cluster.status.conditions, type_)
        if condition is not None and condition.status == "True" and condition.message:
            return condition.message
    return ""
