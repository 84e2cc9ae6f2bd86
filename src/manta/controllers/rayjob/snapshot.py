"""Everything that one round of a RayJob may know. Built by `observe`, read by the stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from manta.api.batch import Job
from manta.api.core import ContainerStatus, Pod, Service
from manta.api.meta import ObjectMeta
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import JobDeploymentStatus, RayJob, RayJobSpec, RayJobStatus, SubmissionMode
from manta.api.scheduling import PodGroup
from manta.rules.settings import Settings
from manta.rules.suffix import suffix
from manta.rules.validation.violation import Violation

SUBMITTED_TO = names.ANNOTATION_SUBMITTED_TO


@dataclass(frozen=True, slots=True)
class NotAsked:
    """The dashboard was not consulted, or has not answered yet."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The dashboard answered, and knows no such job."""


@dataclass(frozen=True, slots=True)
class Silent:
    """The dashboard gave no answer that can be trusted."""

    why: str


@dataclass(frozen=True, slots=True)
class Told:
    """What the dashboard says of the job."""

    status: str
    message: str = ""
    started: datetime | None = None
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class AtSession:
    """Which Ray session the head is; empty where Ray is too old to tell."""

    name: str


Answer = NotAsked | Unknown | Silent | Told | AtSession


@dataclass(frozen=True)
class JobSnapshot:
    job: RayJob
    settings: Settings
    now: datetime
    seed: int
    """Drawn anew for every round; names derive from it and from nothing else."""
    violations: tuple[Violation, ...] = ()
    cluster: RayCluster | None = None
    cluster_spec: Mapping[str, Any] | None = None
    """`spec.rayClusterSpec` as the user wrote it, unknown fields and all."""
    runtime_env: Mapping[str, Any] | None = None
    head_pod: Pod | None = None
    cluster_head_service: Service | None = None
    job_head_service: Service | None = None
    submitter: Job | None = None
    pod_group: PodGroup | None = None
    """Only with a gang scheduler that has one for a RayJob."""
    submitter_pods: tuple[Pod, ...] = ()
    answer: Answer = NotAsked()

    @property
    def spec(self) -> RayJobSpec:
        return self.job.spec

    @property
    def status(self) -> RayJobStatus:
        return self.job.status

    @property
    def stage(self) -> JobDeploymentStatus:
        return JobDeploymentStatus(self.status.job_deployment_status)

    @property
    def mode(self) -> SubmissionMode:
        """An unknown mode is a violation, which the plan reports; nothing before it may raise."""
        named = (one for one in SubmissionMode if one == self.spec.submission_mode)
        return next(named, SubmissionMode.K8S_JOB)

    @property
    def borrows_cluster(self) -> bool:
        """The cluster is not ours: it is neither made nor deleted by this RayJob.

        Whose it is, it says itself: an edit of the spec does not make a shared cluster ours.
        """
        foreign = self.cluster is not None and not self.owns(self.cluster.metadata)
        return bool(self.spec.cluster_selector) or foreign

    def owns(self, meta: ObjectMeta) -> bool:
        owner = meta.controller
        return owner is not None and owner.uid == self.job.metadata.uid

    @property
    def cluster_is_ready(self) -> bool:
        return self.cluster is not None and self.cluster.status.state == "ready"

    @property
    def head(self) -> str:
        """Which incarnation of the head there is now; empty when there is none."""
        if self.head_pod is None:
            return ""
        containers = self.head_pod.spec.containers
        ray = self.head_pod.container_status(containers[0].name) if containers else None
        return f"{self.head_pod.metadata.uid}/{ray.restart_count if ray else 0}"

    @property
    def head_is_ready(self) -> bool:
        """Whether Ray itself is up on the head, whatever runs beside it."""
        if self.head_pod is None or not self.head_pod.spec.containers:
            return False
        ray = self.head_pod.container_status(self.head_pod.spec.containers[0].name)
        return ray is not None and ray.ready

    @property
    def mark(self) -> str:
        """What is written down before the job is handed to the head that there is now."""
        return f"{self.status.job_id}@{self.status.ray_cluster_name}@{self.head}"

    @property
    def submitted_to(self) -> str:
        """The head that the job was handed to, as far as it was written down."""
        if self.mode is SubmissionMode.K8S_JOB:
            kept = self.submitter.metadata.annotations if self.submitter else {}
        else:
            kept = self.job.metadata.annotations
        attempt, _, head = kept.get(SUBMITTED_TO, "").rpartition("@")
        return head if attempt == f"{self.status.job_id}@{self.status.ray_cluster_name}" else ""

    @property
    def sidecar(self) -> ContainerStatus | None:
        """The submitter container beside the head, in SidecarMode."""
        if self.head_pod is None:
            return None
        found = (
            one
            for one in self.head_pod.status.container_statuses
            if one.name == names.CONTAINER_SUBMITTER
        )
        return next(found, None)

    @property
    def sidecar_began(self) -> bool:
        """Whether that container has started at all: from then on the job may be with Ray."""
        state = self.sidecar.state if self.sidecar else None
        return state is not None and (state.running is not None or state.terminated is not None)

    def suffix(self, what: str) -> str:
        """Five characters for a name: equal for equal arguments within a round."""
        return suffix(self.seed, self.job.metadata.uid, what)
