"""Where the job is handed over: the dashboard's address, and what is submitted there."""

from __future__ import annotations

from manta.api.numbers import parse_count
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import SubmissionMode
from manta.controllers.rayjob.snapshot import AtSession, JobSnapshot
from manta.manifests.submitter import Submission
from manta.rules.traits import head_fqdn, ray_container_of


class SubmissionRefusedError(Exception):
    """Ray looked at the job and said no: to ask again would bring the same answer."""


def dashboard_port(seen: JobSnapshot) -> int:
    service = seen.cluster_head_service
    ports = service.spec.ports if service else ()
    found = (port.port for port in ports if port.name == names.PORT_NAME_DASHBOARD)
    return next(found, names.PORT_DASHBOARD)


def dashboard_address(seen: JobSnapshot) -> str:
    """`host:port` of the head's dashboard, as pods of the cluster reach it."""
    if seen.cluster is None:
        return ""
    return f"{head_fqdn(seen.cluster, seen.settings.cluster_domain)}:{dashboard_port(seen)}"


def submission(seen: JobSnapshot) -> Submission:
    address = dashboard_address(seen)
    if seen.mode is SubmissionMode.SIDECAR:
        address = f"127.0.0.1:{_sidecar_port(seen)}"
    return Submission(
        seen.status.job_id,
        address,
        seen.runtime_env or {},
        login_shell=seen.settings.login_shell,
        restarts=seen.settings.gates.sidecar_submitter_restart,
        session=seen.answer.name if isinstance(seen.answer, AtSession) else "",
    )


def _sidecar_port(seen: JobSnapshot) -> int:
    spec = seen.spec.ray_cluster_spec
    if spec is None:
        return names.PORT_DASHBOARD
    declared = ray_container_of(spec.head_group_spec.template).get("ports") or ()
    for port in declared:
        if port.get("name") == names.PORT_NAME_DASHBOARD:
            return int(port["containerPort"])
    said = spec.head_group_spec.ray_start_params.get("dashboard-port", "")
    port = parse_count(said)
    return names.PORT_DASHBOARD if port is None else port


def planned_cluster(seen: JobSnapshot) -> RayCluster:
    """The cluster as it will be, for builders that want to look at its spec."""
    assert seen.spec.ray_cluster_spec is not None  # validation (RJ20)
    return RayCluster(
        metadata=type(seen.job.metadata)(
            name=seen.status.ray_cluster_name, namespace=seen.job.metadata.namespace
        ),
        spec=seen.spec.ray_cluster_spec,
    )
