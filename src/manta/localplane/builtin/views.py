"""The fields of the built-in kinds that our own control plane reads, decoded once per object.

All built-in controllers, the scheduler and the fake nodes share one informer per kind, so these
views hold the union of what they need and nothing more: thousands of Pods stay small. Pod
templates are kept as plain JSON, because they are passed through and unknown fields must survive.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import field

from manta.api import core
from manta.api.core import ContainerState, ObjectReference, SchedulingGate
from manta.api.discovery import EndpointConditions
from manta.api.meta import Condition, Object, View

Amount = str | int | float
"""A quantity as clients write it; the server canonicalises it to text."""

Json = dict[str, Any]


def as_json(view: Any) -> Any:
    """What goes over the wire: dicts and lists, fields at their default left out."""
    return msgspec.json.decode(msgspec.json.encode(view))


# ── Pods ─────────────────────────────────────────────────────────────────────────────────
class ContainerPort(View, frozen=True, kw_only=True):
    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"
    host_port: int = 0


class Resources(View, frozen=True, kw_only=True):
    requests: dict[str, Amount] | None = None
    limits: dict[str, Amount] | None = None


class Probe(View, frozen=True, kw_only=True):
    initial_delay_seconds: int = 0


class Container(View, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] | None = None
    resources: Resources | None = None
    restart_policy: str | None = None
    readiness_probe: Probe | None = None


class Toleration(View, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Requirement(View, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(View, frozen=True, kw_only=True):
    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class NodeSelector(View, frozen=True, kw_only=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredTerm(View, frozen=True, kw_only=True):
    weight: int = 1
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(View, frozen=True, kw_only=True):
    required: NodeSelector | None = field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: tuple[PreferredTerm, ...] | None = field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodAffinityTerm(View, frozen=True, kw_only=True):
    topology_key: str = ""
    label_selector: Json | None = None
    namespaces: tuple[str, ...] | None = None


class PodAffinity(View, frozen=True, kw_only=True):
    required: tuple[PodAffinityTerm, ...] | None = field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(View, frozen=True, kw_only=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class PodClaim(View, frozen=True, kw_only=True):
    claim_name: str = ""


class PodVolume(View, frozen=True, kw_only=True):
    persistent_volume_claim: PodClaim | None = None


class PodSpec(View, frozen=True, kw_only=True):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    priority_class_name: str = ""
    preemption_policy: str = "PreemptLowerPriority"
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    overhead: dict[str, Amount] | None = None
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    host_network: bool = False
    hostname: str = ""
    subdomain: str = ""
    volumes: tuple[PodVolume, ...] | None = None


class ContainerStatus(View, frozen=True, kw_only=True):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState | None = None


class PodCondition(core.PodCondition, frozen=True, kw_only=True):
    last_probe_time: str | None = None
    observed_generation: int = 0


class PodStatus(View, frozen=True, kw_only=True):
    phase: str = "Pending"
    reason: str = ""
    conditions: tuple[PodCondition, ...] | None = None
    pod_ip: str = field(name="podIP", default="")
    host_ip: str = field(name="hostIP", default="")
    start_time: str | None = None
    nominated_node_name: str = ""
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(Object, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_terminal(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_active(self) -> bool:
        """Counts as a replica: it neither ended nor is going away."""
        return not self.is_terminal and not self.is_deleting

    def condition(self, type_: str) -> PodCondition | None:
        return next((c for c in self.status.conditions or () if c.type == type_), None)

    @property
    def is_ready(self) -> bool:
        ready = self.condition("Ready")
        return ready is not None and ready.status == "True"

    @property
    def claim_names(self) -> tuple[str, ...]:
        """The PersistentVolumeClaims that it mounts."""
        claims = (one.persistent_volume_claim for one in self.spec.volumes or ())
        return tuple(one.claim_name for one in claims if one is not None)


# ── storage ──────────────────────────────────────────────────────────────────────────────
class ClaimSpec(View, frozen=True, kw_only=True):
    resources: Resources | None = None


class Claim(Object, frozen=True, kw_only=True):
    spec: ClaimSpec = ClaimSpec()


# ── nodes ────────────────────────────────────────────────────────────────────────────────
class Taint(core.Taint, frozen=True, kw_only=True):
    time_added: str | None = None


class NodeSpec(View, frozen=True, kw_only=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class NodeCondition(core.PodCondition, frozen=True, kw_only=True):
    last_heartbeat_time: str | None = None


class NodeStatus(View, frozen=True, kw_only=True):
    allocatable: dict[str, Amount] | None = None
    capacity: dict[str, Amount] | None = None
    conditions: tuple[NodeCondition, ...] | None = None


class Node(Object, frozen=True, kw_only=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def ready(self) -> NodeCondition | None:
        return next((c for c in self.status.conditions or () if c.type == "Ready"), None)


# ── workloads ────────────────────────────────────────────────────────────────────────────
class Uncounted(View, frozen=True, kw_only=True):
    succeeded: tuple[str, ...] | None = None
    failed: tuple[str, ...] | None = None


class JobCondition(core.PodCondition, frozen=True, kw_only=True):
    last_probe_time: str | None = None


class JobStatus(View, frozen=True, kw_only=True):
    conditions: tuple[JobCondition, ...] | None = None
    start_time: str | None = None
    completion_time: str | None = None
    active: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    terminating: int | None = None
    ready: int | None = None
    completed_indexes: str | None = None
    uncounted_terminated_pods: Uncounted | None = None


class ExitCodes(View, frozen=True, kw_only=True):
    container_name: str | None = None
    operator: str = "In"
    values: tuple[int, ...] = ()


class ConditionPattern(View, frozen=True, kw_only=True):
    type: str
    status: str = "True"


class FailureRule(View, frozen=True, kw_only=True):
    action: str
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[ConditionPattern, ...] | None = None


class FailurePolicy(View, frozen=True, kw_only=True):
    rules: tuple[FailureRule, ...] | None = None


class JobSpec(View, frozen=True, kw_only=True):
    parallelism: int | None = None
    completions: int | None = None
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool | None = None
    pod_replacement_policy: str | None = None
    completion_mode: str | None = None
    pod_failure_policy: FailurePolicy | None = None
    template: Json = field(default_factory=dict)


class Job(Object, frozen=True, kw_only=True):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class WorkloadCondition(core.PodCondition, frozen=True, kw_only=True):
    """A condition of a Deployment or ReplicaSet."""

    last_update_time: str | None = None


class ReplicaSetStatus(View, frozen=True, kw_only=True):
    replicas: int = 0
    fully_labeled_replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    terminating_replicas: int | None = None
    observed_generation: int | None = None
    conditions: tuple[WorkloadCondition, ...] | None = None


class ReplicaSetSpec(View, frozen=True, kw_only=True):
    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: Json = field(default_factory=dict)
    template: Json = field(default_factory=dict)


class ReplicaSet(Object, frozen=True, kw_only=True):
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()

    @property
    def wanted(self) -> int:
        return 1 if self.spec.replicas is None else self.spec.replicas


class RollingUpdate(View, frozen=True, kw_only=True):
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class Strategy(View, frozen=True, kw_only=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(View, frozen=True, kw_only=True):
    replicas: int | None = None
    paused: bool = False
    min_ready_seconds: int = 0
    progress_deadline_seconds: int | None = None
    revision_history_limit: int | None = None
    selector: Json = field(default_factory=dict)
    strategy: Strategy = Strategy()
    template: Json = field(default_factory=dict)


class DeploymentStatus(View, frozen=True, kw_only=True):
    replicas: int | None = None
    updated_replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    unavailable_replicas: int | None = None
    terminating_replicas: int | None = None
    observed_generation: int | None = None
    conditions: tuple[WorkloadCondition, ...] | None = None


class Deployment(Object, frozen=True, kw_only=True):
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def wanted(self) -> int:
        return 1 if self.spec.replicas is None else self.spec.replicas


# ── services ─────────────────────────────────────────────────────────────────────────────
class ServicePort(View, frozen=True, kw_only=True):
    name: str = ""
    port: int = 0
    protocol: str = "TCP"
    target_port: int | str | None = None
    app_protocol: str | None = None


class ServiceSpec(View, frozen=True, kw_only=True):
    type: str = "ClusterIP"
    cluster_ip: str = field(name="clusterIP", default="")
    selector: dict[str, str] | None = None
    ports: tuple[ServicePort, ...] | None = None
    publish_not_ready_addresses: bool = False


class Service(Object, frozen=True, kw_only=True):
    spec: ServiceSpec = ServiceSpec()

    @property
    def is_headless(self) -> bool:
        return self.spec.cluster_ip == "None"


class Endpoint(View, frozen=True, kw_only=True):
    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    node_name: str | None = None
    target_ref: ObjectReference | None = None
    zone: str | None = None


class EndpointPort(View, frozen=True, kw_only=True):
    name: str | None = None
    port: int | None = None
    protocol: str | None = None
    app_protocol: str | None = None


class EndpointSlice(Object, frozen=True, kw_only=True):
    address_type: str = ""
    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None


# ── namespaces and quotas ────────────────────────────────────────────────────────────────
class NamespaceSpec(View, frozen=True, kw_only=True):
    finalizers: tuple[str, ...] | None = None


class NamespaceStatus(View, frozen=True, kw_only=True):
    phase: str = "Active"
    conditions: tuple[Condition, ...] | None = None


class Namespace(Object, frozen=True, kw_only=True):
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()

    @property
    def name(self) -> str:
        return self.metadata.name


class ScopeSelector(View, frozen=True, kw_only=True):
    match_expressions: tuple[Json, ...] | None = None


class QuotaSpec(View, frozen=True, kw_only=True):
    hard: dict[str, Amount] | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: ScopeSelector | None = None


class QuotaStatus(View, frozen=True, kw_only=True):
    hard: dict[str, Amount] | None = None
    used: dict[str, Amount] | None = None


class Quota(Object, frozen=True, kw_only=True):
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()
