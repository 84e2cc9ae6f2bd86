"""Views of the core group: the fields that a controller, the scheduler or the node agent reads.

The operator caches tens of thousands of Pods, so `Pod` is small. The scheduler and the node agent need more, and
have types of their own.
"""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.meta import Object, View

EGRESS_UNAVAILABLE = "EgressUnavailable"
"""A condition of the embedded plane's Node: its Pods cannot reach the network outside of the plane."""

# ── Pods ─────────────────────────────────────────────────────────────────────────────────


class Resources(View, frozen=True, kw_only=True):
    """Quantities stay as written; `manta.api.quantity.Quantity.parse` reads them."""

    requests: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    limits: dict[str, str | int | float] = msgspec.field(default_factory=dict)


class ContainerPort(View, frozen=True, kw_only=True):
    name: str = ""
    container_port: int = 0


class Container(View, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: Resources = Resources()


class SchedulingGate(View, frozen=True, kw_only=True):
    name: str = ""


class PodSpec(View, frozen=True, kw_only=True):
    node_name: str = ""
    restart_policy: str = "Always"
    containers: tuple[Container, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class Waiting(View, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""


class Running(View, frozen=True, kw_only=True):
    started_at: str | None = None


class Terminated(View, frozen=True, kw_only=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(View, frozen=True, kw_only=True):
    """At most one is set; none means waiting without a reason."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(View, frozen=True, kw_only=True):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodCondition(View, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodStatus(View, frozen=True, kw_only=True):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def container_status(self, name: str) -> ContainerStatus | None:
        """The status of an app container; init containers have their own list."""
        return next((one for one in self.status.container_statuses if one.name == name), None)


# ── Nodes ────────────────────────────────────────────────────────────────────────────────


class Taint(View, frozen=True, kw_only=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(View, frozen=True, kw_only=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeAddress(View, frozen=True, kw_only=True):
    type: str = ""
    address: str = ""


class NodeStatus(View, frozen=True, kw_only=True):
    capacity: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    allocatable: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    conditions: tuple[PodCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()


class Node(Object, frozen=True, kw_only=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# ── Services ─────────────────────────────────────────────────────────────────────────────


class ServicePort(View, frozen=True, kw_only=True):
    name: str = ""
    port: int = 0
    target_port: int | str = 0
    protocol: str = "TCP"
    node_port: int = 0
    app_protocol: str = ""


class ServiceSpec(View, frozen=True, kw_only=True):
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    selector: dict[str, str] = msgspec.field(default_factory=dict)
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False
    external_name: str = ""
    session_affinity: str = "None"
    session_affinity_config: dict[str, Any] | None = None
    external_traffic_policy: str = ""
    internal_traffic_policy: str = ""
    load_balancer_source_ranges: tuple[str, ...] = ()
    external_ips: tuple[str, ...] = msgspec.field(default=(), name="externalIPs")


class LoadBalancerIngress(View, frozen=True, kw_only=True):
    ip: str = ""
    hostname: str = ""


class LoadBalancerStatus(View, frozen=True, kw_only=True):
    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(View, frozen=True, kw_only=True):
    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


class Service(Object, frozen=True, kw_only=True):
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()

    @property
    def headless(self) -> bool:
        return self.spec.cluster_ip == "None"

    def port(self, name: str) -> ServicePort | None:
        return next((one for one in self.spec.ports if one.name == name), None)


# ── other kinds ──────────────────────────────────────────────────────────────────────────


class SecretData(Object, frozen=True, kw_only=True):
    """A Secret with its data (base64). Never cached; its repr shows no value."""

    data: dict[str, str] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"SecretData({self.metadata.key}, keys={sorted(self.data)})"


class ServiceAccount(Object, frozen=True, kw_only=True):
    """Only its metadata."""


class PersistentVolumeClaimSpec(View, frozen=True, kw_only=True):
    access_modes: tuple[str, ...] = ()
    storage_class_name: str | None = None
    resources: Resources = Resources()
    volume_name: str = ""


class PersistentVolumeClaimStatus(View, frozen=True, kw_only=True):
    phase: str = ""
    capacity: dict[str, str | int | float] = msgspec.field(default_factory=dict)


class PersistentVolumeClaim(Object, frozen=True, kw_only=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class ObjectReference(View, frozen=True, kw_only=True):
    """A reference to an object, as in Events."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""
