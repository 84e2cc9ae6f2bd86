"""All inputs of one reconcile of a RayJob. `observe` builds it, the stages read it."""

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
class NotQueried:
    """The dashboard was not queried, or has not answered yet."""


@dataclass(frozen=True, slots=True)
class JobNotFound:
    """The dashboard knows no such job."""


@dataclass(frozen=True, slots=True)
class DashboardUnreachable:
    """The dashboard gave no usable answer."""

    why: str


@dataclass(frozen=True, slots=True)
class DashboardReply:
    """What the dashboard reports of the job."""

    status: str
    message: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    first_failure: str = ""
    """The first failed task of a failed job and its error; empty if Ray did not report it."""


@dataclass(frozen=True, slots=True)
class SessionReply:
    """The name of the head's Ray session; empty if this Ray does not report it."""

    name: str


DashboardAnswer = NotQueried | JobNotFound | DashboardUnreachable | DashboardReply | SessionReply


@dataclass(frozen=True)
class JobSnapshot:
    job: RayJob
    settings: Settings
    now: datetime
    seed: int
    """Random for each reconcile. Generated names depend on it and on the RayJob only."""
    violations: tuple[Violation, ...] = ()
    cluster: RayCluster | None = None
    cluster_spec: Mapping[str, Any] | None = None
    """`spec.rayClusterSpec` as the user wrote it, with unknown fields."""
    runtime_env: Mapping[str, Any] | None = None
    head_pod: Pod | None = None
    cluster_head_service: Service | None = None
    job_head_service: Service | None = None
    submitter: Job | None = None
    pod_group: PodGroup | None = None
    """Only with a gang scheduler that has a PodGroup for a RayJob."""
    submitter_pods: tuple[Pod, ...] = ()
    answer: DashboardAnswer = NotQueried()

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
        """K8sJobMode for an unknown mode, which is a violation that the plan reports.

        A cluster whose head has the submitter beside it keeps it: an edit of the mode does not change that a lost
        head would submit the job again. One that was made without it never gets it: an edit to SidecarMode counts
        for the next attempt, and this one goes on with its submitter Job, or over HTTP.
        """
        named = (one for one in SubmissionMode if one == self.spec.submission_mode)
        mode = next(named, SubmissionMode.K8S_JOB)
        if self.cluster is None or not self.owns(self.cluster.metadata):
            return mode
        if _has_sidecar(self.cluster):
            return SubmissionMode.SIDECAR
        if mode is SubmissionMode.SIDECAR:
            return SubmissionMode.K8S_JOB if self.submitter else SubmissionMode.HTTP
        return mode

    @property
    def borrows_cluster(self) -> bool:
        """Whether the cluster is not owned by this RayJob, which then neither creates nor deletes it.

        The cluster's owner decides: an edit of `clusterSelector` does not change whose it is.
        """
        foreign = self.cluster is not None and not self.owns(self.cluster.metadata)
        return bool(self.spec.cluster_selector) or foreign

    def owns(self, meta: ObjectMeta) -> bool:
        return meta.is_controlled_by(self.job.metadata.uid)

    @property
    def cluster_is_ready(self) -> bool:
        return self.cluster is not None and self.cluster.status.state == "ready"

    @property
    def head(self) -> str:
        """UID of the head Pod and restarts of its Ray container; empty without a head Pod."""
        ray = self._ray_container
        restarts = ray.restart_count if ray else 0
        return f"{self.head_pod.metadata.uid}/{restarts}" if self.head_pod else ""

    @property
    def head_is_ready(self) -> bool:
        """Whether the Ray container of the head is ready; other containers do not count."""
        ray = self._ray_container
        return ray is not None and ray.ready

    @property
    def _ray_container(self) -> ContainerStatus | None:
        if self.head_pod is None or not self.head_pod.spec.containers:
            return None
        return self.head_pod.container_status(self.head_pod.spec.containers[0].name)

    @property
    def submission_mark(self) -> str:
        """The value of the annotation `SUBMITTED_TO` for this attempt, the current head and its cluster."""
        uid = self.cluster.metadata.uid if self.cluster else ""
        return f"{self._attempt}{self.head}@{uid}"

    @property
    def submitted_to(self) -> str:
        """The recorded head that the job was submitted to; empty if none is recorded."""
        return self._submitted_to[0]

    @property
    def submitted_to_cluster(self) -> str:
        """The UID of its RayCluster; empty if none is recorded."""
        return self._submitted_to[1]

    @property
    def _submitted_to(self) -> tuple[str, str]:
        if self.mode is SubmissionMode.K8S_JOB:
            annotations = self.submitter.metadata.annotations if self.submitter else {}
        else:
            annotations = self.job.metadata.annotations
        mark = annotations.get(SUBMITTED_TO, "")
        if not mark.startswith(self._attempt):
            return "", ""
        head, _, cluster = mark.removeprefix(self._attempt).partition("@")
        return head, cluster

    @property
    def _attempt(self) -> str:
        return f"{self.status.job_id}@{self.status.ray_cluster_name}@"

    @property
    def sidecar(self) -> ContainerStatus | None:
        """The submitter container of the head Pod, in SidecarMode."""
        return self.head_pod.container_status(names.CONTAINER_SUBMITTER) if self.head_pod else None

    @property
    def sidecar_started(self) -> bool:
        """Whether that container has ever started: from then on Ray may have the job."""
        state = self.sidecar.state if self.sidecar else None
        return state is not None and (state.running is not None or state.terminated is not None)

    def suffix(self, what: str) -> str:
        """Five characters for a name, equal for equal arguments within one reconcile."""
        return suffix(self.seed, self.job.metadata.uid, what)


def _has_sidecar(cluster: RayCluster) -> bool:
    """Whether the head has the submitter beside it."""
    pod = cluster.spec.head_group_spec.template.get("spec") or {}
    containers = pod.get("containers") or ()
    return any(one.get("name") == names.CONTAINER_SUBMITTER for one in containers)
