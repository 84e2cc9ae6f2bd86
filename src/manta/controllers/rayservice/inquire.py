"""Which clusters to ask about their Serve applications, and when news is due."""

from __future__ import annotations

from dataclasses import dataclass

from manta.api.ray import names
from manta.controllers.rayservice.plan import Phase, phase
from manta.controllers.rayservice.planners.serve import (
    current_order,
    obstacle_to_serving,
    order_for,
)
from manta.controllers.rayservice.snapshot import ClusterSight, ServiceSnapshot
from manta.manifests.serve_services import serve_port
from manta.rules.traits import auth_secret_name, head_fqdn, head_service_name, token_auth


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Which Serve is asked, and after which submission: an answer from before it is worthless."""

    namespace: str
    service: str
    host: str
    port: int
    head: str
    submitted: str


@dataclass(frozen=True, slots=True)
class Question:
    whereabouts: Whereabouts
    secret: str
    """The Secret that holds the token; empty when the dashboard wants none."""
    pod: str
    pod_ip: str
    proxy_port: int
    applications: tuple[str, ...]
    is_probed: bool
    """The cluster serves: its proxy is probed every few seconds, whatever the applications do."""


def question(seen: ServiceSnapshot, sight: ClusterSight) -> Question | None:
    """None where the answer cannot matter, or nobody is there to give one."""
    if phase(seen) is not Phase.SERVING or sight.is_going:
        return None
    return whom_to_ask(seen, sight)


def whom_to_ask(seen: ServiceSnapshot, sight: ClusterSight) -> Question | None:
    cluster, pod = sight.cluster, sight.head_pod
    if pod is None or not sight.head_is_ready:
        return None
    where = Whereabouts(
        namespace=cluster.metadata.namespace,
        service=head_service_name(cluster),
        host=head_fqdn(cluster, seen.settings.cluster_domain),
        port=_dashboard_port(sight),
        head=sight.head,
        submitted=sight.submitted,
    )
    return Question(
        where,
        secret=auth_secret_name(cluster) if token_auth(cluster.spec) else "",
        pod=pod.metadata.name,
        pod_ip=pod.status.pod_ip,
        proxy_port=serve_port(cluster),
        applications=order_for(seen, sight).applications,
        is_probed=sight is seen.active and not seen.spec.exclude_head_pod_from_serve_svc,
    )


def _dashboard_port(sight: ClusterSight) -> int:
    port = sight.head_service.port(names.PORT_NAME_DASHBOARD) if sight.head_service else None
    return port.port if port else names.PORT_DASHBOARD


def expects_change(seen: ServiceSnapshot, sight: ClusterSight) -> bool:
    """Until a cluster can serve, every moment counts."""
    return bool(obstacle_to_serving(sight, current_order(seen, sight)))
