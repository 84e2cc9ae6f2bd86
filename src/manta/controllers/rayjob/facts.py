"""Facts about a RayJob: pure predicates and values that several phases derive from a snapshot."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from manta.api.ray import names
from manta.api.ray.job import (
    TERMINAL_JOB_STATUSES,
    JobDeploymentStatus,
    JobFailedReason,
    RayJobSpec,
    RayJobStatus,
    SubmissionMode,
)
from manta.api.times import parse_time
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.manifests.session_guard import OTHER_SESSION_EXIT_CODE
from manta.rules.traits import has_dashboard, head_fqdn

BEFORE_RUNNING: Final = (JobDeploymentStatus.INITIALIZING, JobDeploymentStatus.WAITING)
ACTIVE: Final = (*BEFORE_RUNNING, JobDeploymentStatus.RUNNING)
"""The stages of an attempt that has begun and is not over."""

NO_ENTRYPOINT: Final = (
    "spec.entrypoint is empty, and the submitter has no command of its own:"
    " name the command to run on the cluster"
)
STOP_CONFIRMED_WITHIN: Final = timedelta(minutes=5)
SIDECAR_RESTARTS: Final = 2
"""How often the kubelet restarts a failed sidecar submitter (gate SidecarSubmitterRestart)."""


# ── the cluster and its dashboard ────────────────────────────────────────────────────────


def is_cluster_live(snapshot: JobSnapshot) -> bool:
    """Whether the cluster exists and is not being deleted."""
    cluster = snapshot.cluster
    return cluster is not None and cluster.metadata.deletion_timestamp is None


def dashboard_port(snapshot: JobSnapshot) -> int:
    service = snapshot.cluster_head_service
    port = service.port(names.PORT_NAME_DASHBOARD) if service else None
    return port.port if port else names.PORT_DASHBOARD


def dashboard_address(snapshot: JobSnapshot) -> str:
    """`host:port` of the dashboard, as Pods of the cluster reach it; empty without a cluster."""
    if snapshot.cluster is None:
        return ""
    host = head_fqdn(snapshot.cluster, snapshot.settings.cluster_domain)
    return f"{host}:{dashboard_port(snapshot)}"


def needs_session(snapshot: JobSnapshot) -> bool:
    """Whether the next action is to create a submitter, which must know the Ray session of its head.

    Also with GCS fault tolerance: the session lives as long as its tables do, and a new cluster of the same name has
    neither.
    """
    cluster = snapshot.cluster
    return (
        snapshot.stage is JobDeploymentStatus.INITIALIZING
        and snapshot.mode is SubmissionMode.K8S_JOB
        and snapshot.submitter is None
        and cluster is not None
        and snapshot.cluster_is_ready
        and has_dashboard(cluster.spec)
    )


# ── deadlines ────────────────────────────────────────────────────────────────────────────


def deadlines(spec: RayJobSpec, status: RayJobStatus) -> dict[str, datetime]:
    """The deadlines that apply in this stage, by the name of their field."""
    if not status.start_time or status.job_deployment_status not in ACTIVE:
        return {}
    limits = {"activeDeadlineSeconds": spec.active_deadline_seconds}
    if status.job_deployment_status in BEFORE_RUNNING:
        limits["preRunningDeadlineSeconds"] = spec.pre_running_deadline_seconds
    start = parse_time(status.start_time)
    return {
        name: start + timedelta(seconds=limit)
        for name, limit in limits.items()
        if limit is not None
    }


def is_stop_unconfirmed(snapshot: JobSnapshot) -> bool:
    """Whether a deadline ended the RayJob and Ray has not yet confirmed that the job stopped."""
    status = snapshot.status
    return (
        snapshot.stage is JobDeploymentStatus.FAILED
        and status.reason == JobFailedReason.DEADLINE_EXCEEDED
        and status.job_status not in TERMINAL_JOB_STATUSES
        and status.end_time is not None
        and snapshot.now - parse_time(status.end_time) < STOP_CONFIRMED_WITHIN
    )


# ── the submitter ────────────────────────────────────────────────────────────────────────


def is_submitter_running(snapshot: JobSnapshot) -> bool:
    match snapshot.mode:
        case SubmissionMode.K8S_JOB:
            return snapshot.submitter is not None and snapshot.submitter.finished is None
        case SubmissionMode.SIDECAR:
            return snapshot.sidecar is not None and snapshot.sidecar.state.terminated is None
        case _:
            return False


def submitter_job_end(snapshot: JobSnapshot) -> tuple[str, datetime] | None:
    """Why the submitter Job failed (empty: it succeeded) and when it ended; None while it runs."""
    if snapshot.submitter is None or snapshot.submitter.finished is None:
        return None
    for condition in snapshot.submitter.status.conditions:
        if condition.type == snapshot.submitter.finished:
            when = condition.last_transition_time
            ended = parse_time(when) if when else snapshot.now
            failed = condition.type == "Failed"
            return (condition.message or condition.reason or "Failed") if failed else "", ended
    return None


def sidecar_end(snapshot: JobSnapshot) -> tuple[str, datetime] | None:
    """The same of the sidecar submitter; None also while the kubelet may restart it."""
    ended = snapshot.sidecar.state.terminated if snapshot.sidecar else None
    if snapshot.sidecar is None or ended is None:
        return None
    may_restart = snapshot.settings.gates.sidecar_submitter_restart and ended.exit_code
    if may_restart and snapshot.sidecar.restart_count < SIDECAR_RESTARTS:
        return None
    when = parse_time(ended.finished_at) if ended.finished_at else snapshot.now
    why = f"{ended.reason or 'Error'}, exit code {ended.exit_code}" if ended.exit_code else ""
    return why, when


def reached_other_session(snapshot: JobSnapshot) -> bool:
    """Whether a Pod of the submitter exited because it reached another Ray session than its own."""
    if snapshot.submitter is None:
        return False
    owner = snapshot.submitter.metadata.uid
    pods = [pod for pod in snapshot.submitter_pods if pod.metadata.is_controlled_by(owner)]
    containers = [one for pod in pods for one in pod.status.container_statuses]
    ends = [state.terminated for one in containers for state in (one.state, one.last_state)]
    return any(end is not None and end.exit_code == OTHER_SESSION_EXIT_CODE for end in ends)
