"""RayJob: spec and status, every field of ray.io/v1."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import msgspec

from manta.api.meta import Condition, ObjectMeta, View
from manta.api.ray.cluster import RayClusterSpec, RayClusterStatus
from manta.api.ray.fieldinfo import MANAGED_BY_RULES, Int64, PodTemplate, Time, info, list_map
from manta.api.ray.manifest import Manifest


class JobStatus(StrEnum):
    """The status of the job, from Ray."""

    NEW = ""
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


TERMINAL_JOB_STATUSES: Final = frozenset((JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED))


class JobDeploymentStatus(StrEnum):
    """The stage of the RayJob itself."""

    NEW = ""
    INITIALIZING = "Initializing"
    WAITING = "Waiting"
    RUNNING = "Running"
    COMPLETE = "Complete"
    FAILED = "Failed"
    VALIDATION_FAILED = "ValidationFailed"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    RETRYING = "Retrying"


TERMINAL_DEPLOYMENT_STATUSES: Final = frozenset(
    (JobDeploymentStatus.COMPLETE, JobDeploymentStatus.FAILED)
)


class JobFailedReason(StrEnum):
    SUBMISSION_FAILED = "SubmissionFailed"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    PRE_RUNNING_DEADLINE_EXCEEDED = "PreRunningDeadlineExceeded"
    APP_FAILED = "AppFailed"
    TRANSITION_GRACE_PERIOD_EXCEEDED = "JobDeploymentStatusTransitionGracePeriodExceeded"
    STATUS_CHECK_TIMEOUT_EXCEEDED = "JobStatusCheckTimeoutExceeded"
    VALIDATION_FAILED = "ValidationFailed"


class JobConditionType(StrEnum):
    """Ours: KubeRay's RayJob has no conditions."""

    READY = "Ready"
    """Ray has the job, or has done it; while it is False, reason and message say what is waited for."""
    COMPLETE = "Complete"
    FAILED = "Failed"


class SubmissionMode(StrEnum):
    K8S_JOB = "K8sJobMode"
    HTTP = "HTTPMode"
    INTERACTIVE = "InteractiveMode"
    SIDECAR = "SidecarMode"


class DeletionPolicyType(StrEnum):
    DELETE_CLUSTER = "DeleteCluster"
    DELETE_WORKERS = "DeleteWorkers"
    DELETE_SELF = "DeleteSelf"
    DELETE_NONE = "DeleteNone"


DELETION_IMPACT: Final = (
    DeletionPolicyType.DELETE_NONE,
    DeletionPolicyType.DELETE_WORKERS,
    DeletionPolicyType.DELETE_CLUSTER,
    DeletionPolicyType.DELETE_SELF,
)
"""All policies, each before those that delete more."""
CLUSTER_POLICIES: Final = frozenset(
    (DeletionPolicyType.DELETE_WORKERS, DeletionPolicyType.DELETE_CLUSTER)
)
"""Policies that change the RayCluster: not for a cluster that the RayJob does not own."""


# ── spec ─────────────────────────────────────────────────────────────────────────────────


class DeletionPolicy(View, frozen=True, kw_only=True):
    policy: Annotated[str | None, info("What to delete.", enum=list(DeletionPolicyType))] = None


_CONDITION_RULES: Final = (
    (
        "!(has(self.jobStatus) && has(self.jobDeploymentStatus))",
        (
            "JobStatus and JobDeploymentStatus cannot be used together within the same deletion"
            " condition."
        ),
    ),
    (
        "has(self.jobStatus) || has(self.jobDeploymentStatus)",
        "the deletion condition requires either the JobStatus or the JobDeploymentStatus field.",
    ),
)


class DeletionCondition(View, frozen=True, kw_only=True):
    job_status: Annotated[
        str | None, info("The final status of the job, from Ray.", enum=["SUCCEEDED", "FAILED"])
    ] = None
    job_deployment_status: Annotated[
        str | None, info("The final status of the RayJob.", enum=["Failed"])
    ] = None
    ttl_seconds: Annotated[int, info("Seconds to wait after the end.", default=0, minimum=0)] = 0


class DeletionRule(View, frozen=True, kw_only=True):
    policy: Annotated[
        str, info("What to delete.", required=True, enum=list(DeletionPolicyType))
    ] = ""
    condition: Annotated[
        DeletionCondition, info("When to delete it.", required=True, rules=_CONDITION_RULES)
    ] = DeletionCondition()


_STRATEGY_RULES: Final = (
    (
        "!((has(self.onSuccess) || has(self.onFailure)) && has(self.deletionRules))",
        (
            "legacy policies (onSuccess/onFailure) and deletionRules cannot be used together within"
            " the same deletionStrategy"
        ),
    ),
    (
        "((has(self.onSuccess) && has(self.onFailure)) || has(self.deletionRules))",
        (
            "deletionStrategy requires either BOTH onSuccess and onFailure, OR the deletionRules field"
            " (cannot be empty)"
        ),
    ),
)


class DeletionStrategy(View, frozen=True, kw_only=True):
    on_success: Annotated[DeletionPolicy | None, info("After success (older form).")] = None
    on_failure: Annotated[DeletionPolicy | None, info("After failure (older form).")] = None
    deletion_rules: Annotated[
        tuple[DeletionRule, ...],
        info("What to delete when.", minItems=1, **{"x-kubernetes-list-type": "atomic"}),
    ] = ()


class SubmitterConfig(View, frozen=True, kw_only=True):
    backoff_limit: Annotated[int | None, info("Retries of the submitter Job; default 2.")] = None


class RayJobSpec(View, frozen=True, kw_only=True):
    entrypoint: Annotated[str, info("The command to run on the cluster.")] = ""
    runtime_env_yaml: Annotated[str, info("Ray's runtime environment, as YAML.")] = msgspec.field(
        default="", name="runtimeEnvYAML"
    )
    metadata: Annotated[dict[str, str], info("Metadata of the Ray job.")] = msgspec.field(
        default_factory=dict
    )
    job_id: Annotated[str, info("Submission id; generated if empty.")] = ""
    submission_mode: Annotated[str, info("Who submits the job.", default="K8sJobMode")] = (
        "K8sJobMode"
    )
    entrypoint_num_cpus: Annotated[float, info("CPUs of the entrypoint.")] = 0.0
    entrypoint_num_gpus: Annotated[float, info("GPUs of the entrypoint.")] = 0.0
    entrypoint_resources: Annotated[str, info("Custom resources of the entrypoint, as JSON.")] = ""
    ray_cluster_spec: Annotated[
        RayClusterSpec | None, info("The cluster to create for the job.")
    ] = None
    cluster_selector: Annotated[
        dict[str, str], info("An existing cluster, by the label ray.io/cluster.")
    ] = msgspec.field(default_factory=dict)
    submitter_pod_template: Annotated[
        PodTemplate | None, info("The submitter's Pod.", model="PodTemplateSpec")
    ] = None
    submitter_config: Annotated[SubmitterConfig | None, info("Settings of the submitter.")] = None
    suspend: Annotated[bool, info("Do not run; delete the cluster.")] = False
    managed_by: Annotated[
        str | None, info("The operator that manages this object.", rules=MANAGED_BY_RULES)
    ] = None
    backoff_limit: Annotated[int | None, info("Retries, each on a new cluster.", default=0)] = None
    active_deadline_seconds: Annotated[
        int | None, info("Longest duration of one attempt, in seconds.")
    ] = None
    pre_running_deadline_seconds: Annotated[
        int | None, info("Longest time until the job runs, in seconds.", minimum=1)
    ] = None
    shutdown_after_job_finishes: Annotated[bool, info("Delete the cluster after the end.")] = False
    ttl_seconds_after_finished: Annotated[int, info("Seconds to wait before that.", default=0)] = 0
    deletion_strategy: Annotated[
        DeletionStrategy | None, info("What to delete after the end.", rules=_STRATEGY_RULES)
    ] = None


# ── status ───────────────────────────────────────────────────────────────────────────────


class RayJobInfo(View, frozen=True, kw_only=True):
    start_time: Annotated[Time | None, info("When Ray started the job.")] = None
    end_time: Annotated[Time | None, info("When Ray ended the job.")] = None


class RayJobStatus(View, frozen=True, kw_only=True):
    job_id: Annotated[str, info("The submission id in use.")] = ""
    ray_cluster_name: Annotated[str, info("The cluster in use.")] = ""
    dashboard_url: Annotated[str, info("Address of the dashboard.")] = msgspec.field(
        default="", name="dashboardURL"
    )
    job_status: Annotated[str, info("Status of the job, from Ray.")] = ""
    job_deployment_status: Annotated[str, info("The stage of this RayJob.")] = ""
    reason: Annotated[str, info("Why it failed.")] = ""
    message: Annotated[str, info("Details.")] = ""
    ray_job_info: Annotated[RayJobInfo, info("Times that Ray reports.")] = RayJobInfo()
    start_time: Annotated[Time | None, info("When this attempt began.")] = None
    end_time: Annotated[Time | None, info("When it ended.")] = None
    succeeded: Annotated[int | None, info("Attempts that succeeded.", default=0)] = None
    failed: Annotated[int | None, info("Attempts that failed.", default=0)] = None
    ray_cluster_status: Annotated[RayClusterStatus, info("Status of the cluster in use.")] = (
        RayClusterStatus()
    )
    job_status_check_failure_start_time: Annotated[
        Time | None, info("Since when the dashboard does not answer.")
    ] = None
    observed_generation: Annotated[Int64, info("The generation that this status is of.")] = 0
    conditions: Annotated[
        tuple[Condition, ...], info("Conditions of the RayJob.", **list_map("type"))
    ] = ()


class RayJob(Manifest, frozen=True, kw_only=True):
    """One Ray job, on a cluster made for it or on one that is there."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RayJobSpec = RayJobSpec()
    status: RayJobStatus = RayJobStatus()
