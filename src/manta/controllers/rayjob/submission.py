"""What is submitted to Ray, and to which address."""

from __future__ import annotations

from manta.api.meta import ObjectMeta
from manta.api.numbers import parse_count
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import SubmissionMode
from manta.controllers.rayjob.facts import dashboard_address
from manta.controllers.rayjob.snapshot import JobSnapshot, SessionReply
from manta.manifests.submitter import Submission
from manta.rules.traits import ray_container_of


class SubmissionRefusedError(Exception):
    """Ray refused the job for good: another try would get the same answer."""


def submission(snapshot: JobSnapshot) -> Submission:
    address = dashboard_address(snapshot)
    if snapshot.mode is SubmissionMode.SIDECAR:
        address = f"127.0.0.1:{_sidecar_port(snapshot)}"
    return Submission(
        snapshot.status.job_id,
        address,
        snapshot.runtime_env or {},
        login_shell=snapshot.settings.login_shell,
        restarts=snapshot.settings.gates.sidecar_submitter_restart,
        session=snapshot.answer.name if isinstance(snapshot.answer, SessionReply) else "",
    )


def _sidecar_port(snapshot: JobSnapshot) -> int:
    spec = snapshot.spec.ray_cluster_spec
    if spec is None:
        return names.PORT_DASHBOARD
    for port in ray_container_of(spec.head_group_spec.template).get("ports") or ():
        if port.get("name") == names.PORT_NAME_DASHBOARD:
            return int(port["containerPort"])
    port = parse_count(spec.head_group_spec.ray_start_params.get("dashboard-port", ""))
    return names.PORT_DASHBOARD if port is None else port


def planned_cluster(snapshot: JobSnapshot) -> RayCluster:
    """The RayCluster as it will be created, for builders that read its spec."""
    assert snapshot.spec.ray_cluster_spec is not None  # validation (RJ20)
    namespace, name = snapshot.job.metadata.namespace, snapshot.status.ray_cluster_name
    metadata = ObjectMeta(name=name, namespace=namespace)
    return RayCluster(metadata=metadata, spec=snapshot.spec.ray_cluster_spec)
