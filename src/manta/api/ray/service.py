"""RayService: spec and status, every field of ray.io/v1."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from manta.api.meta import Condition, ObjectMeta, View
from manta.api.ray.cluster import RayClusterSpec, RayClusterStatus
from manta.api.ray.fieldinfo import MANAGED_BY_RULES, Int64, Time, info, list_map
from manta.api.ray.manifest import Manifest


class ServiceUpgradeType(StrEnum):
    NEW_CLUSTER = "NewCluster"
    INCREMENTAL = "NewClusterWithIncrementalUpgrade"
    CANARY = "Canary"
    """Ours: traffic and capacity move in steps, without a Gateway."""
    NONE = "None"


class ServiceStatusWord(StrEnum):
    RUNNING = "Running"
    NOT_RUNNING = ""


class ApplicationStatusWord(StrEnum):
    """The status of an application, from Serve."""

    NOT_STARTED = "NOT_STARTED"
    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    DEPLOY_FAILED = "DEPLOY_FAILED"
    DELETING = "DELETING"
    UNHEALTHY = "UNHEALTHY"


class ServiceConditionType(StrEnum):
    READY = "Ready"
    UPGRADE_IN_PROGRESS = "UpgradeInProgress"
    ROLLBACK_IN_PROGRESS = "RollbackInProgress"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"


class ServiceConditionReason(StrEnum):
    INITIALIZING = "Initializing"
    INITIALIZING_TIMEOUT = "InitializingTimeout"
    ZERO_SERVE_ENDPOINTS = "ZeroServeEndpoints"
    NON_ZERO_SERVE_ENDPOINTS = "NonZeroServeEndpoints"
    BOTH_CLUSTERS_EXIST = "BothActivePendingClustersExist"
    NO_PENDING_CLUSTER = "NoPendingCluster"
    NO_ACTIVE_CLUSTER = "NoActiveCluster"
    VALIDATION_FAILED = "ValidationFailed"
    DESIRED_SPEC_CHANGED = "DesiredClusterSpecChanged"
    CANARY_REJECTED = "CanaryRejected"
    SUSPEND_REQUESTED = "SuspendRequested"
    SUSPEND_IN_PROGRESS = "SuspendInProgress"
    SUSPEND_COMPLETE = "SuspendComplete"
    RESUMED = "RayServiceResumed"
    CANNOT_START = "CannotStart"
    """Ours, as is CANARY_REJECTED: the finalizer was refused, and nothing has begun yet."""


# ── spec ─────────────────────────────────────────────────────────────────────────────────


class ClusterUpgradeOptions(View, frozen=True, kw_only=True):
    max_surge_percent: Annotated[
        int | None, info("Serve capacity that one step may add.", default=100)
    ] = None
    step_size_percent: Annotated[
        int | None, info("Traffic that one step moves.", required=True)
    ] = None
    interval_seconds: Annotated[int | None, info("Seconds between steps.", required=True)] = None
    gateway_class_name: Annotated[str, info("Class of the Gateway.", required=True)] = ""


class CanaryStep(View, frozen=True, kw_only=True):
    """Manta only, as the whole canary."""

    weight: Annotated[
        int, info("Percent of the traffic that the new cluster gets.", required=True)
    ] = 0
    pause_seconds: Annotated[int, info("Seconds before the next step may begin.", minimum=0)] = 0
    until_promoted: Annotated[bool, info("Wait for `manta upgrade promote` after the pause.")] = (
        False
    )


class PrometheusQuery(View, frozen=True, kw_only=True):
    query: Annotated[
        str,
        info(
            "A query that returns one number; $new, $old and $namespace are replaced by names.",
            required=True,
        ),
    ] = ""
    max: Annotated[float, info("The highest number that is healthy.", required=True)] = 0.0


class CanaryAnalysis(View, frozen=True, kw_only=True):
    interval_seconds: Annotated[
        int, info("Seconds between two readings of Serve's metrics.", default=5)
    ] = 5
    window_seconds: Annotated[int, info("Seconds that the figures cover.", default=60)] = 60
    min_requests: Annotated[
        int, info("Requests to the new cluster that a verdict needs.", default=50)
    ] = 50
    max_error_percent: Annotated[
        float | None, info("Highest share of responses 5xx of the new cluster.")
    ] = None
    max_p95_milliseconds: Annotated[
        int | None, info("Highest 95th percentile of the new cluster's latency.")
    ] = None
    prometheus: Annotated[PrometheusQuery | None, info("A further limit, from Prometheus.")] = None


class CanaryUpgradeOptions(View, frozen=True, kw_only=True):
    steps: Annotated[
        tuple[CanaryStep, ...], info("The steps; 100 % follows the last.", required=True)
    ] = ()
    max_surge: Annotated[
        int | str | None,
        info(
            "Workers of each group beyond its size, as number or percent; default 1.",
            model="IntOrString",
        ),
    ] = None
    automatic: Annotated[
        bool, info("`false`: every step waits for `manta upgrade promote`.", default=True)
    ] = True
    progress_deadline_seconds: Annotated[
        int | None,
        info("A step that makes no progress for so long rolls the canary back.", default=1800),
    ] = None
    analysis: Annotated[CanaryAnalysis | None, info("Limits that roll the upgrade back.")] = None
    gateway_class_name: Annotated[
        str, info("Split traffic by a Gateway of this class; default: by Pods of one Service.")
    ] = ""


class ServiceUpgradeStrategy(View, frozen=True, kw_only=True):
    type: Annotated[str | None, info("How a new cluster spec is rolled out.")] = None
    cluster_upgrade_options: Annotated[
        ClusterUpgradeOptions | None, info("Settings of the incremental upgrade.")
    ] = None
    canary_upgrade_options: Annotated[
        CanaryUpgradeOptions | None, info("Settings of the canary. Manta only.")
    ] = None


class RayServiceSpec(View, frozen=True, kw_only=True):
    serve_config_v2: Annotated[str, info("Ray Serve's multi-application config, as YAML.")] = ""
    ray_cluster_config: Annotated[
        RayClusterSpec, info("The cluster that serves.", required=True)
    ] = RayClusterSpec()
    serve_service: Annotated[
        dict[str, Any] | None, info("A custom serve Service.", model="Service")
    ] = None
    upgrade_strategy: Annotated[
        ServiceUpgradeStrategy | None, info("How a new spec is rolled out.")
    ] = None
    suspend: Annotated[bool, info("Delete the clusters; `false` creates them again.")] = False
    managed_by: Annotated[
        str | None, info("The operator that manages this object.", rules=MANAGED_BY_RULES)
    ] = None
    ray_cluster_deletion_delay_seconds: Annotated[
        int | None, info("Seconds before an old cluster is deleted after the switch.", minimum=0)
    ] = None
    exclude_head_pod_from_serve_svc: Annotated[bool, info("Send no requests to the head.")] = False
    service_unhealthy_second_threshold: Annotated[int | None, info("No longer used.")] = None
    deployment_unhealthy_second_threshold: Annotated[int | None, info("No longer used.")] = None


# ── status ───────────────────────────────────────────────────────────────────────────────


class ServeDeploymentStatus(View, frozen=True, kw_only=True):
    status: Annotated[str, info("Status of the deployment, from Serve.")] = ""
    message: Annotated[str, info("Details.")] = ""


class AppStatus(View, frozen=True, kw_only=True):
    status: Annotated[str, info("Status of the application, from Serve.")] = ""
    message: Annotated[str, info("Details.")] = ""
    serve_deployment_statuses: Annotated[
        dict[str, ServeDeploymentStatus], info("Its deployments by name.")
    ] = msgspec.field(default_factory=dict)


class ServeSubmission(View, frozen=True, kw_only=True):
    """The config that one cluster's Serve got last. Manta only."""

    config_hash: Annotated[str, info("Hash of the config with its share of capacity.")] = ""
    head: Annotated[str, info("The head (Pod UID and restarts) that has it.")] = ""
    resubmissions: Annotated[
        int, info("Repeated submissions to this head since all applications last ran.")
    ] = 0
    submitted_time: Annotated[Time | None, info("When it was submitted last.")] = None
    config: Annotated[str, info("The config as JSON; empty if it is too long.")] = ""


class RayServiceStatus(View, frozen=True, kw_only=True):
    """One of the two clusters of a service."""

    ray_cluster_name: Annotated[str, info("Name of the cluster.")] = ""
    ray_cluster_status: Annotated[RayClusterStatus, info("Status of the cluster.")] = (
        RayClusterStatus()
    )
    application_statuses: Annotated[dict[str, AppStatus], info("Serve applications by name.")] = (
        msgspec.field(default_factory=dict)
    )
    target_capacity: Annotated[int | None, info("Target capacity of Serve, in percent.")] = None
    traffic_routed_percent: Annotated[int | None, info("Percent of traffic sent here.")] = None
    last_traffic_migrated_time: Annotated[
        Time | None, info("When that percentage last changed.")
    ] = None
    serve_submission: Annotated[
        ServeSubmission | None, info("The config that its Serve got last. Manta only.")
    ] = None


class RayServiceStatuses(View, frozen=True, kw_only=True):
    conditions: Annotated[
        tuple[Condition, ...], info("Conditions of the service.", **list_map("type"))
    ] = ()
    service_status: Annotated[str, info("Running, or empty.")] = ""
    num_serve_endpoints: Annotated[int, info("Pods that answer requests.")] = 0
    active_service_status: Annotated[RayServiceStatus, info("The cluster that serves.")] = (
        RayServiceStatus()
    )
    pending_service_status: Annotated[
        RayServiceStatus, info("The next cluster, during an upgrade.")
    ] = RayServiceStatus()
    last_update_time: Annotated[Time | None, info("When this status last changed.")] = None
    observed_generation: Annotated[Int64, info("The generation that this status is of.")] = 0


class RayService(Manifest, frozen=True, kw_only=True):
    """Ray Serve applications on a cluster, upgraded without a gap."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RayServiceSpec = RayServiceSpec()
    status: RayServiceStatuses = RayServiceStatuses()
