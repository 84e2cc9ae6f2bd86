"""Which dashboards to query about Serve applications, and when."""

from __future__ import annotations

from dataclasses import dataclass

from manta.api.ray import names
from manta.controllers.rayservice.facts.phase import Phase, phase
from manta.controllers.rayservice.facts.serve import (
    current_desired_serve,
    desired_serve,
    serving_obstacle,
)
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot
from manta.manifests.serve_services import serve_port
from manta.rules.running_head import token_secret
from manta.rules.traits import head_fqdn, head_service_name


@dataclass(frozen=True, slots=True)
class DashboardTarget:
    """One dashboard, its head, and the last submission: an answer from before it does not count."""

    namespace: str
    service: str
    host: str
    port: int
    head: str
    submitted: str


@dataclass(frozen=True, slots=True)
class DashboardQuery:
    target: DashboardTarget
    secret: str
    """The Secret with the token; empty if the dashboard needs none."""
    pod: str
    pod_ip: str
    proxy_port: int
    applications: tuple[str, ...]
    is_probed: bool
    """The cluster serves: its proxy is probed every few seconds, apart from this query."""


def due_query(snapshot: ServiceSnapshot, view: ClusterView) -> DashboardQuery | None:
    """The query whose answer this phase needs; None if it needs none, or no head is ready."""
    if phase(snapshot) is not Phase.SERVING or view.is_deleting:
        return None
    return dashboard_query(snapshot, view)


def dashboard_query(snapshot: ServiceSnapshot, view: ClusterView) -> DashboardQuery | None:
    """The query of one cluster's dashboard; None if no head is ready."""
    cluster, pod = view.cluster, view.head_pod
    if pod is None or not view.head_is_ready:
        return None
    target = DashboardTarget(
        namespace=cluster.metadata.namespace,
        service=head_service_name(cluster),
        host=head_fqdn(cluster, snapshot.settings.cluster_domain),
        port=_dashboard_port(view),
        head=view.head,
        submitted=view.submitted,
    )
    return DashboardQuery(
        target,
        secret=token_secret(cluster, pod),
        pod=pod.metadata.name,
        pod_ip=pod.status.pod_ip,
        proxy_port=serve_port(cluster, pod),
        applications=desired_serve(snapshot, view).applications,
        is_probed=_serves(snapshot, view) and not snapshot.spec.exclude_head_pod_from_serve_svc,
    )


def _serves(snapshot: ServiceSnapshot, view: ClusterView) -> bool:
    """Whether requests reach this cluster: the active one, and the new one of a canary."""
    takes_part = bool(snapshot.status.pending_service_status.traffic_routed_percent)
    return view is snapshot.active or (snapshot.is_canary and takes_part)


def _dashboard_port(view: ClusterView) -> int:
    port = view.head_service.port(names.PORT_NAME_DASHBOARD) if view.head_service else None
    return port.port if port else names.PORT_DASHBOARD


def expects_change(snapshot: ServiceSnapshot, view: ClusterView) -> bool:
    """Whether the answer should change soon: until the cluster can serve."""
    return bool(serving_obstacle(view, current_desired_serve(snapshot, view)))
