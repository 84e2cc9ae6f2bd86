"""Which dashboard to query, about the job or about its Ray session, and when."""

from __future__ import annotations

from dataclasses import dataclass, replace

from manta.api.ray.job import JobDeploymentStatus
from manta.controllers.rayjob.facts import dashboard_port, is_stop_unconfirmed, needs_session
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.rules.running_head import token_secret
from manta.rules.traits import head_fqdn, head_service_name


@dataclass(frozen=True, slots=True)
class DashboardQuery:
    """One query of one dashboard. Equal queries share their answer."""

    job_id: str
    namespace: str
    service: str
    host: str
    port: int
    head: str
    """UID and restarts of the head: after a restart it has another Ray session."""
    secret: str
    """The Secret with the token; empty if the dashboard needs none."""
    about_session: bool = False
    """Ask for the Ray session of the head instead of the job, which is not submitted yet."""


def due_query(snapshot: JobSnapshot) -> DashboardQuery | None:
    """The query whose answer this stage needs; None if it needs none, or there is no head."""
    if needs_session(snapshot):
        query = dashboard_query(snapshot)
        return query and replace(query, about_session=True)
    running = snapshot.stage is JobDeploymentStatus.RUNNING
    if not (running or is_stop_unconfirmed(snapshot)) or not snapshot.status.job_id:
        return None
    return dashboard_query(snapshot)


def dashboard_query(snapshot: JobSnapshot) -> DashboardQuery | None:
    """The query about the job; None without a head."""
    cluster = snapshot.cluster
    if cluster is None or not snapshot.head:
        return None
    return DashboardQuery(
        job_id=snapshot.status.job_id,
        namespace=cluster.metadata.namespace,
        service=head_service_name(cluster),
        host=head_fqdn(cluster, snapshot.settings.cluster_domain),
        port=dashboard_port(snapshot),
        head=snapshot.head,
        secret=token_secret(cluster, snapshot.head_pod),
    )


def expects_change(snapshot: JobSnapshot) -> bool:
    """Whether the answer should change soon: before Ray's first report, and after the submitter's end."""
    if is_stop_unconfirmed(snapshot):
        return True
    submitter_ended = snapshot.submitter is not None and snapshot.submitter.finished is not None
    return not snapshot.status.job_status or submitter_ended
