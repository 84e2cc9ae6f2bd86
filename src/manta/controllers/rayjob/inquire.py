"""Whether to ask the dashboard, about the job or about itself, and when a change is due."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from manta.api.ray.job import (
    TERMINAL_JOB_STATUSES,
    JobDeploymentStatus,
    JobFailedReason,
    SubmissionMode,
)
from manta.api.times import parse_time
from manta.controllers.rayjob.handover import dashboard_port
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.rules.traits import (
    StorageBackend,
    auth_secret_name,
    has_dashboard,
    head_fqdn,
    head_service_name,
    storage_backend,
    token_auth,
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, of whom. Equal questions are one question."""

    job_id: str
    namespace: str
    service: str
    host: str
    port: int
    head: str
    secret: str
    """The Secret that holds the token; empty when the dashboard wants none."""
    about_session: bool = False
    """Not the job is asked about, which nobody has submitted yet, but the head itself."""


def question(seen: JobSnapshot) -> Question | None:
    """None where the answer cannot matter, or nobody is there to ask."""
    if wants_session(seen):
        asked = whom_to_ask(seen)
        return asked and replace(asked, about_session=True)
    running = seen.stage is JobDeploymentStatus.RUNNING
    if not (running or still_to_stop(seen)) or not seen.status.job_id:
        return None
    return whom_to_ask(seen)


def wants_session(seen: JobSnapshot) -> bool:
    """A submitter is to be made, and must know which head it is for. Where the record of a job
    outlives the head, Ray itself refuses a second submission."""
    cluster = seen.cluster
    return (
        seen.stage is JobDeploymentStatus.INITIALIZING
        and seen.mode is SubmissionMode.K8S_JOB
        and seen.submitter is None
        and cluster is not None
        and seen.cluster_is_ready
        and has_dashboard(cluster.spec)
        and storage_backend(cluster) is StorageBackend.NONE
    )


STOP_CONFIRMED_WITHIN = timedelta(minutes=5)


def still_to_stop(seen: JobSnapshot) -> bool:
    """A deadline ended the RayJob; Ray has not confirmed yet that its job ended too."""
    status = seen.status
    return (
        seen.stage is JobDeploymentStatus.FAILED
        and status.reason == JobFailedReason.DEADLINE_EXCEEDED
        and status.job_status not in TERMINAL_JOB_STATUSES
        and status.end_time is not None
        and seen.now - parse_time(status.end_time) < STOP_CONFIRMED_WITHIN
    )


def whom_to_ask(seen: JobSnapshot) -> Question | None:
    cluster = seen.cluster
    if cluster is None or not seen.head:
        return None
    return Question(
        job_id=seen.status.job_id,
        namespace=cluster.metadata.namespace,
        service=head_service_name(cluster),
        host=head_fqdn(cluster, seen.settings.cluster_domain),
        port=dashboard_port(seen),
        head=seen.head,
        secret=auth_secret_name(cluster) if token_auth(cluster.spec) else "",
    )


def expects_change(seen: JobSnapshot) -> bool:
    """Before Ray has said a first word, and once a submitter has ended, news is due at once."""
    if still_to_stop(seen):
        return True
    submitter_ended = seen.submitter is not None and seen.submitter.finished is not None
    return not seen.status.job_status or submitter_ended
