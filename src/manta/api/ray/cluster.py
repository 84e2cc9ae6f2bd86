"""RayCluster: spec and status, every field of ray.io/v1.

Pod templates, Services and other core values stay raw JSON. Absent fields decode to their
empty value; where absent and empty differ for the controller, the field may be None. "Ours" marks what
KubeRay does not have.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from manta.api.meta import Condition, ObjectMeta, View
from manta.api.ray.fieldinfo import (
    MANAGED_BY_RULES,
    Int64,
    PodTemplate,
    QuantityText,
    Time,
    info,
    list_map,
)
from manta.api.ray.manifest import Manifest

# ── enumerations ─────────────────────────────────────────────────────────────────────────


class ClusterState(StrEnum):
    READY = "ready"
    FAILED = "failed"
    SUSPENDED = "suspended"


class ClusterUpgradeType(StrEnum):
    RECREATE = "Recreate"
    NONE = "None"
    ROLLING_UPDATE = "RollingUpdate"
    """Ours: Pods of an earlier spec are replaced a few at a time."""


class OnRolloutFailure(StrEnum):
    STOP = "stop"
    ROLLBACK = "rollback"


class AuthMode(StrEnum):
    DISABLED = "disabled"
    TOKEN = "token"  # noqa: S105 - a mode, not a token


class AutoscalerVersion(StrEnum):
    V1 = "v1"
    V2 = "v2"


class UpscalingMode(StrEnum):
    DEFAULT = "Default"
    AGGRESSIVE = "Aggressive"
    CONSERVATIVE = "Conservative"


class GcsBackend(StrEnum):
    REDIS = "redis"
    ROCKSDB = "rocksdb"


class GcsStorageDeletionPolicy(StrEnum):
    DELETE_WITH_CLUSTER = "DeleteWithCluster"
    RETAIN = "Retain"


class NetworkPolicyMode(StrEnum):
    DENY_ALL = "DenyAll"
    DENY_ALL_INGRESS = "DenyAllIngress"
    DENY_ALL_EGRESS = "DenyAllEgress"


class IngressPathType(StrEnum):
    EXACT = "Exact"
    PREFIX = "Prefix"
    IMPLEMENTATION_SPECIFIC = "ImplementationSpecific"


class ClusterConditionType(StrEnum):
    PROVISIONED = "RayClusterProvisioned"
    HEAD_POD_READY = "HeadPodReady"
    REPLICA_FAILURE = "ReplicaFailure"
    SUSPENDING = "RayClusterSuspending"
    SUSPENDED = "RayClusterSuspended"
    ROLLING_UPDATE = "RollingUpdate"
    """Ours: how far a rolling update is, and what it waits for."""
    BLOCKED = "Blocked"
    """Ours: why the Pods are not ready. It stays, with the last known reason, until every wanted Pod is
    ready, and after failed Pods until all have been ready for a minute."""
    IDLE = "Idle"
    """Ours, of a cluster with a limit of idleness: whether nobody uses it, since when, or why that is not known."""


class ClusterConditionReason(StrEnum):
    ALL_PODS_READY_FIRST_TIME = "AllPodRunningAndReadyFirstTime"
    PODS_PROVISIONING = "RayClusterPodsProvisioning"
    HEAD_POD_NOT_FOUND = "HeadPodNotFound"
    HEAD_POD_READY = "HeadPodRunningAndReady"
    UNKNOWN = "Unknown"


# ── spec ─────────────────────────────────────────────────────────────────────────────────


class GroupRollingUpdate(View, frozen=True, kw_only=True):
    """Ours: the limits of one worker group."""

    group_name: Annotated[
        str, info("The worker group that these limits are for.", required=True)
    ] = ""
    max_surge: Annotated[
        int | str | None, info("Replaces maxSurge for this group.", model="IntOrString")
    ] = None
    max_unavailable: Annotated[
        int | str | None, info("Replaces maxUnavailable for this group.", model="IntOrString")
    ] = None


class RollingUpdateOptions(View, frozen=True, kw_only=True):
    """Ours. KubeRay has no type RollingUpdate."""

    max_surge: Annotated[
        int | str | None,
        info("Replicas of a group above `replicas`: a number or percent.", model="IntOrString"),
    ] = None
    max_unavailable: Annotated[
        int | str | None,
        info("Replicas of a group that may be missing: a number or percent.", model="IntOrString"),
    ] = None
    min_ready_seconds: Annotated[
        int | None, info("Seconds that a new Pod is ready before it counts; default 0.", minimum=0)
    ] = None
    progress_deadline_seconds: Annotated[
        int | None, info("Seconds without progress until it stops; default 600.", minimum=1)
    ] = None
    drain_seconds: Annotated[
        int | None, info("Seconds that Ray may drain a worker; default 120.", minimum=0)
    ] = None
    paused: Annotated[bool | None, info("Replace no Pod until this is false.")] = None
    on_failure: Annotated[
        str | None, info("What happens at the deadline; default stop.", enum=list(OnRolloutFailure))
    ] = None
    groups: Annotated[
        tuple[GroupRollingUpdate, ...],
        info("Limits of single worker groups.", **list_map("groupName")),
    ] = ()


class UpgradeStrategy(View, frozen=True, kw_only=True):
    type: Annotated[
        str | None,
        info("What happens to running Pods when the spec changes.", enum=list(ClusterUpgradeType)),
    ] = None
    rolling_update: Annotated[
        RollingUpdateOptions | None, info("Options of the type RollingUpdate.")
    ] = None


class AuthOptions(View, frozen=True, kw_only=True):
    mode: Annotated[str, info("How Ray authenticates clients.", enum=list(AuthMode))] = ""
    secret_name: Annotated[str | None, info("An existing Secret with the key auth_token.")] = None
    enable_k8s_token_auth: Annotated[
        bool | None, info("Accept Kubernetes ServiceAccount tokens.")
    ] = msgspec.field(default=None, name="enableK8sTokenAuth")


class AutoscalerOptions(View, frozen=True, kw_only=True):
    version: Annotated[
        str | None, info("Which of Ray's autoscalers to run.", enum=list(AutoscalerVersion))
    ] = None
    image: Annotated[str | None, info("Image of the sidecar; default: the head's image.")] = None
    image_pull_policy: Annotated[str | None, info("Pull policy of the sidecar's image.")] = None
    resources: Annotated[
        dict[str, Any] | None,
        info("Resources of the sidecar; default 500m and 512Mi.", model="ResourceRequirements"),
    ] = None
    security_context: Annotated[
        dict[str, Any] | None, info("Security context of the sidecar.", model="SecurityContext")
    ] = None
    idle_timeout_seconds: Annotated[
        int | None, info("Seconds until an idle worker may be removed.")
    ] = None
    upscaling_mode: Annotated[
        str | None, info("How fast new workers are requested.", enum=list(UpscalingMode))
    ] = None
    env: Annotated[tuple[dict[str, Any], ...], info("Extra environment.", model="EnvVar")] = ()
    env_from: Annotated[
        tuple[dict[str, Any], ...], info("Extra sources of environment.", model="EnvFromSource")
    ] = ()
    volume_mounts: Annotated[
        tuple[dict[str, Any], ...], info("Extra volume mounts.", model="VolumeMount")
    ] = ()
    command: Annotated[tuple[str, ...], info("Replaces the sidecar's command.")] = ()
    args: Annotated[tuple[str, ...], info("Replaces the sidecar's arguments.")] = ()


class RedisCredential(View, frozen=True, kw_only=True):
    value: Annotated[str, info("The value itself.")] = ""
    value_from: Annotated[
        dict[str, Any] | None, info("Where to read the value.", model="EnvVarSource")
    ] = None


class GcsEmbeddedStorage(View, frozen=True, kw_only=True):
    claim_name: Annotated[str, info("An existing claim; excludes size and class.")] = ""
    size: Annotated[QuantityText | None, info("Size of the claim; default 1Gi.")] = None
    storage_class_name: Annotated[str | None, info("Storage class of the claim.")] = None
    access_modes: Annotated[
        tuple[str, ...], info("Access modes of the claim; default ReadWriteOnce.")
    ] = ()
    sub_path: Annotated[str, info("Directory inside the volume.")] = ""
    deletion_policy: Annotated[
        str | None,
        info("Whether the claim is deleted with the cluster.", enum=list(GcsStorageDeletionPolicy)),
    ] = None


class GcsFaultToleranceOptions(View, frozen=True, kw_only=True):
    backend: Annotated[
        str,
        info(
            "Where the GCS stores its tables.",
            enum=list(GcsBackend),
            rules=(("self == oldSelf", "gcsFaultToleranceOptions.backend is immutable"),),
        ),
    ] = ""
    redis_address: Annotated[str, info("Address of Redis.")] = ""
    redis_username: Annotated[RedisCredential | None, info("User name for Redis.")] = None
    redis_password: Annotated[RedisCredential | None, info("Password for Redis.")] = None
    external_storage_namespace: Annotated[
        str, info("Prefix of this cluster's keys; default: the cluster's UID.")
    ] = ""
    storage: Annotated[
        GcsEmbeddedStorage | None, info("Volume of the embedded store (rocksdb).")
    ] = None


class CollectorOptions(View, frozen=True, kw_only=True):
    image: Annotated[str | None, info("Image of the collector.")] = None
    image_pull_policy: Annotated[str | None, info("Pull policy of that image.")] = None
    resources: Annotated[
        dict[str, Any] | None, info("Resources of the collector.", model="ResourceRequirements")
    ] = None
    env: Annotated[
        tuple[dict[str, Any], ...], info("Environment, with STORAGE_BACKEND.", model="EnvVar")
    ] = ()


class HistoryServerOptions(View, frozen=True, kw_only=True):
    collector_options: Annotated[
        CollectorOptions | None, info("The sidecar that uploads logs and events.")
    ] = None


class NetworkPolicyRules(View, frozen=True, kw_only=True):
    ingress_rules: Annotated[
        tuple[dict[str, Any], ...],
        info("Additional ingress traffic to allow.", model="NetworkPolicyIngressRule"),
    ] = ()
    egress_rules: Annotated[
        tuple[dict[str, Any], ...],
        info("Additional egress traffic to allow.", model="NetworkPolicyEgressRule"),
    ] = ()


class WorkerGroupNetworkPolicyRules(NetworkPolicyRules, frozen=True, kw_only=True):
    group_name: Annotated[
        str, info("The worker group that these rules are for.", required=True)
    ] = ""


class NetworkPolicyConfig(View, frozen=True, kw_only=True):
    mode: Annotated[
        str, info("What is denied by default.", enum=list(NetworkPolicyMode), default="DenyAll")
    ] = "DenyAll"
    head: Annotated[NetworkPolicyRules | None, info("Rules of the head.")] = None
    worker: Annotated[NetworkPolicyRules | None, info("Rules of every worker group.")] = None
    worker_groups: Annotated[
        tuple[WorkerGroupNetworkPolicyRules, ...],
        info("Rules that replace those of `worker` for one group.", **list_map("groupName")),
    ] = ()


class TLSOptions(View, frozen=True, kw_only=True):
    enabled: Annotated[bool | None, info("Mutual TLS between Ray's processes.")] = None


class IngressOptions(View, frozen=True, kw_only=True):
    host: Annotated[str | None, info("Host name of the rule.")] = None
    path: Annotated[str | None, info("Path of the rule; default /.")] = None
    path_type: Annotated[
        str | None, info("How the path is compared.", enum=list(IngressPathType))
    ] = None
    tls: Annotated[tuple[dict[str, Any], ...], info("TLS of the Ingress.", model="IngressTLS")] = ()


class HeadGroupSpec(View, frozen=True, kw_only=True):
    template: Annotated[
        PodTemplate, info("The head Pod.", required=True, model="PodTemplateSpec")
    ] = msgspec.field(default_factory=dict)
    ray_start_params: Annotated[dict[str, str], info("Flags of `ray start`.")] = msgspec.field(
        default_factory=dict
    )
    resources: Annotated[
        dict[str, str], info("Ray resources; replaces those flags of rayStartParams.")
    ] = msgspec.field(default_factory=dict)
    labels: Annotated[dict[str, str], info("Ray node labels; also Pod labels.")] = msgspec.field(
        default_factory=dict
    )
    service_type: Annotated[str, info("Type of the head Service.")] = ""
    head_service: Annotated[
        dict[str, Any] | None, info("A custom head Service.", model="Service")
    ] = None
    enable_ingress: Annotated[bool | None, info("Create an Ingress for the dashboard.")] = None
    ingress_options: Annotated[IngressOptions | None, info("Options of that Ingress.")] = None


class ScaleStrategy(View, frozen=True, kw_only=True):
    workers_to_delete: Annotated[
        tuple[str, ...], info("Names of Pods to remove first; written by Ray's autoscaler.")
    ] = ()


class WorkerGroupSpec(View, frozen=True, kw_only=True):
    group_name: Annotated[str, info("Name of the group.", required=True)] = ""
    replicas: Annotated[int | None, info("Desired replicas.", default=0)] = None
    min_replicas: Annotated[int | None, info("Lower bound.", required=True, default=0)] = None
    max_replicas: Annotated[int | None, info("Upper bound.", required=True, default=2147483647)] = (
        None
    )
    num_of_hosts: Annotated[int, info("Pods per replica.", default=1)] = 1
    idle_timeout_seconds: Annotated[
        int | None, info("Seconds until an idle worker of this group may be removed.")
    ] = None
    priority: Annotated[
        int | None, info("Groups of higher priority are scaled up first.", default=0)
    ] = None
    suspend: Annotated[bool | None, info("Remove the Pods of this group.")] = None
    ray_start_params: Annotated[dict[str, str], info("Flags of `ray start`.")] = msgspec.field(
        default_factory=dict
    )
    resources: Annotated[
        dict[str, str], info("Ray resources; replaces those flags of rayStartParams.")
    ] = msgspec.field(default_factory=dict)
    labels: Annotated[dict[str, str], info("Ray node labels; also Pod labels.")] = msgspec.field(
        default_factory=dict
    )
    template: Annotated[
        PodTemplate, info("The worker Pod.", required=True, model="PodTemplateSpec")
    ] = msgspec.field(default_factory=dict)
    scale_strategy: Annotated[ScaleStrategy, info("Which workers are deleted first.")] = (
        ScaleStrategy()
    )


class RayClusterSpec(View, frozen=True, kw_only=True):
    ray_version: Annotated[str, info("Version of Ray in the images.")] = ""
    head_group_spec: Annotated[HeadGroupSpec, info("The head.", required=True)] = HeadGroupSpec()
    worker_group_specs: Annotated[
        tuple[WorkerGroupSpec, ...],
        # A map, unlike KubeRay's: who applies a group without `replicas` must not take them away
        # from the autoscaler that set them (C10), and no name is taken twice (C13).
        info("The workers.", **list_map("groupName")),
    ] = ()
    suspend: Annotated[bool | None, info("Remove all Pods; a later `false` resumes.")] = None
    managed_by: Annotated[
        str | None, info("The operator that manages this object.", rules=MANAGED_BY_RULES)
    ] = None
    enable_in_tree_autoscaling: Annotated[
        bool | None, info("Run Ray's autoscaler in the head Pod.")
    ] = None
    autoscaler_options: Annotated[AutoscalerOptions | None, info("Options of that sidecar.")] = None
    head_service_annotations: Annotated[
        dict[str, str], info("Annotations of the head Service.")
    ] = msgspec.field(default_factory=dict)
    upgrade_strategy: Annotated[UpgradeStrategy | None, info("How a new spec is rolled out.")] = (
        None
    )
    auth_options: Annotated[AuthOptions | None, info("Authentication of Ray's clients.")] = None
    gcs_fault_tolerance_options: Annotated[
        GcsFaultToleranceOptions | None, info("Survive the loss of the head.")
    ] = None
    history_server_options: Annotated[
        HistoryServerOptions | None, info("Keep logs and events after the cluster is deleted.")
    ] = None
    network_policy: Annotated[
        NetworkPolicyConfig | None, info("Which traffic to and from the Pods is allowed.")
    ] = None
    tls_options: Annotated[TLSOptions | None, info("Encrypt the traffic inside the cluster.")] = (
        None
    )


# ── status ───────────────────────────────────────────────────────────────────────────────


class HeadInfo(View, frozen=True, kw_only=True):
    pod_ip: Annotated[str, info("Address of the head Pod.")] = msgspec.field(
        default="", name="podIP"
    )
    service_ip: Annotated[
        str, info("Address of the head Service; the Pod's own if it is headless.")
    ] = msgspec.field(default="", name="serviceIP")
    pod_name: Annotated[str, info("Name of the head Pod.")] = ""
    service_name: Annotated[str, info("Name of the head Service.")] = ""


class RayClusterStatus(View, frozen=True, kw_only=True):
    state: Annotated[str, info("ready, suspended, or empty.")] = ""
    reason: Annotated[str, info("Reason of the state.")] = ""
    desired_cpu: Annotated[QuantityText, info("CPUs of all desired Pods.")] = msgspec.field(
        default="", name="desiredCPU"
    )
    desired_memory: Annotated[QuantityText, info("Memory of all desired Pods.")] = ""
    desired_gpu: Annotated[QuantityText, info("GPUs of all desired Pods.")] = msgspec.field(
        default="", name="desiredGPU"
    )
    desired_tpu: Annotated[QuantityText, info("TPUs of all desired Pods.")] = msgspec.field(
        default="", name="desiredTPU"
    )
    desired_worker_replicas: Annotated[int, info("Desired workers.")] = 0
    min_worker_replicas: Annotated[int, info("Sum of the lower bounds.")] = 0
    max_worker_replicas: Annotated[int, info("Sum of the upper bounds.")] = 0
    available_worker_replicas: Annotated[int, info("Running workers.")] = 0
    ready_worker_replicas: Annotated[int, info("Ready workers.")] = 0
    endpoints: Annotated[dict[str, str], info("Ports of the head Service by name.")] = (
        msgspec.field(default_factory=dict)
    )
    head: Annotated[HeadInfo, info("Name and address of the head.")] = HeadInfo()
    conditions: Annotated[
        tuple[Condition, ...], info("Conditions of the cluster.", **list_map("type"))
    ] = ()
    state_transition_times: Annotated[
        dict[str, Time], info("When each state was last entered.")
    ] = msgspec.field(default_factory=dict)
    last_update_time: Annotated[
        Time | None, info("When this status last changed.", nullable=True)
    ] = None
    observed_generation: Annotated[Int64, info("The generation that this status is of.")] = 0


class RayCluster(Manifest, frozen=True, kw_only=True):
    """A Ray head and its worker groups."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RayClusterSpec = RayClusterSpec()
    status: RayClusterStatus = RayClusterStatus()
