"""All inputs of one reconcile of a RayService. `observe` builds it, the planners read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from manta.api.conditions import is_true
from manta.api.core import Pod, Service
from manta.api.gateway import Gateway, HTTPRoute
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType, RayCluster
from manta.api.ray.service import (
    AppStatus,
    CanaryUpgradeOptions,
    ClusterUpgradeOptions,
    RayService,
    RayServiceSpec,
    RayServiceStatuses,
    ServeSubmission,
    ServiceUpgradeType,
)
from manta.rules.canary_analysis import Reading
from manta.rules.pod_health import is_ready, is_terminating
from manta.rules.settings import Settings
from manta.rules.spec_hash import spec_hash
from manta.rules.suffix import suffix
from manta.rules.validation.canary import canary_options
from manta.rules.validation.violation import Violation


@dataclass(frozen=True, slots=True)
class NotQueried:
    """The dashboard was not queried, or has not answered yet."""


@dataclass(frozen=True, slots=True)
class DashboardUnreachable:
    """The dashboard gave no usable answer."""

    why: str


@dataclass(frozen=True, slots=True)
class DashboardReply:
    """What Serve reports of its applications."""

    applications: Mapping[str, AppStatus]
    proxies: frozenset[str] = frozenset()
    """Addresses of the nodes on which Serve runs a proxy."""


DashboardAnswer = NotQueried | DashboardUnreachable | DashboardReply


@dataclass(frozen=True)
class ClusterView:
    """One cluster of the service, with its Pods, its Services and what its Serve reports."""

    cluster: RayCluster
    head_pod: Pod | None = None
    pods: tuple[Pod, ...] = ()
    """All its Pods, with the head."""
    head_service: Service | None = None
    serve_service: Service | None = None
    """Its own serve Service; only while traffic is split."""
    submission: ServeSubmission | None = None
    """The last recorded submission to its Serve."""
    answer: DashboardAnswer = NotQueried()
    proxy_healthy: bool | None = None
    """Whether the Serve proxy on the head takes requests; None: not checked."""

    @property
    def name(self) -> str:
        return self.cluster.metadata.name

    @property
    def is_deleting(self) -> bool:
        return self.cluster.metadata.deletion_timestamp is not None

    @property
    def head(self) -> str:
        """UID and restarts of the head Pod; empty without a head Pod."""
        if self.head_pod is None:
            return ""
        statuses = self.head_pod.status.container_statuses
        restarts = statuses[0].restart_count if statuses else 0
        return f"{self.head_pod.metadata.uid}/{restarts}"

    @property
    def head_is_ready(self) -> bool:
        """Whether the head is ready: by the cluster's condition, or by the Pod's if the cluster's is behind (C49)."""
        by_condition = is_true(self.cluster.status.conditions, ClusterConditionType.HEAD_POD_READY)
        return self.head_pod is not None and (by_condition or is_ready(self.head_pod))

    @property
    def submitted(self) -> str:
        """Identifies the last submission; empty before the first one."""
        last = self.submission
        if last is None:
            return ""
        return f"{last.config_hash}@{last.head}+{last.resubmissions}"

    @property
    def serving_pods(self) -> tuple[Pod, ...]:
        """The Pods to which its serve Service sends requests."""
        return tuple(
            pod
            for pod in self.pods
            if pod.metadata.labels.get(names.LABEL_SERVE) == names.SERVE_TRUE
            and is_ready(pod)
            and not is_terminating(pod)
        )


@dataclass(frozen=True)
class ServiceSnapshot:
    service: RayService
    settings: Settings
    now: datetime
    seed: int
    """Random for each reconcile. Generated names depend on it and on the RayService only."""
    violations: tuple[Violation, ...] = ()
    cluster_spec: Mapping[str, Any] = field(default_factory=dict)
    """`spec.rayClusterConfig` as the user wrote it, with unknown fields."""
    serve_config: Mapping[str, Any] = field(default_factory=dict)
    clusters: tuple[RayCluster, ...] = ()
    """All RayClusters that this RayService controls."""
    active: ClusterView | None = None
    pending: ClusterView | None = None
    head_service: Service | None = None
    serve_service: Service | None = None
    own_services: tuple[Service, ...] = ()
    """All Services that this RayService controls."""
    endpoints: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """UIDs of the ready Pods behind each serve Service, by its name."""
    gateway: Gateway | None = None
    route: HTTPRoute | None = None
    gateway_error: str = ""
    """Why Gateway and HTTPRoute could not be read."""
    leaving_pods: tuple[Pod, ...] = ()
    """During a canary: Pods of the clusters that no longer serve. They still hold GPUs."""
    canary_reading: Reading | None = None
    """The figures of both clusters during a canary; None: not read, or not yet."""
    unmanaged: tuple[datetime, datetime] | None = None
    """Time between the last status that another operator wrote and the first reconcile of this one. No deadline runs meanwhile."""
    drops_submissions: bool = False
    """The CRD drops recorded submissions: they are kept in memory only."""

    @property
    def spec(self) -> RayServiceSpec:
        return self.service.spec

    @property
    def status(self) -> RayServiceStatuses:
        return self.service.status

    @property
    def active_name(self) -> str:
        return self.status.active_service_status.ray_cluster_name

    @property
    def pending_name(self) -> str:
        return self.status.pending_service_status.ray_cluster_name

    @cached_property
    def goal_hash(self) -> str:
        return spec_hash(self.spec.ray_cluster_config)

    @property
    def strategy(self) -> str:
        """The upgrade type for a spec that needs new Pods."""
        chosen = self.spec.upgrade_strategy.type if self.spec.upgrade_strategy else None
        if chosen:
            return chosen
        newest, none = ServiceUpgradeType.NEW_CLUSTER, ServiceUpgradeType.NONE
        return newest if self.settings.zero_downtime else none

    @property
    def is_incremental(self) -> bool:
        return self.strategy == ServiceUpgradeType.INCREMENTAL

    @property
    def is_canary(self) -> bool:
        return self.strategy == ServiceUpgradeType.CANARY

    @property
    def is_split(self) -> bool:
        """Whether two clusters share the traffic, or are about to."""
        both = bool(self.active_name and self.pending_name)
        return self.is_incremental or (self.is_canary and both)

    @cached_property
    def canary_options(self) -> CanaryUpgradeOptions:
        """Without any, the spec is invalid."""
        found = canary_options(self.service)
        return found if isinstance(found, CanaryUpgradeOptions) else CanaryUpgradeOptions()

    @property
    def gateway_class(self) -> str:
        """The class of the Gateway that splits traffic; empty: none does."""
        if self.is_canary:
            return self.canary_options.gateway_class_name
        return self.upgrade_options.gateway_class_name if self.is_incremental else ""

    @property
    def was_split(self) -> bool:
        """Whether traffic is or was split, under this or an earlier strategy."""
        sides = (self.status.active_service_status, self.status.pending_service_status)
        return any(
            (one.target_capacity, one.traffic_routed_percent, one.last_traffic_migrated_time)
            != (None, None, None)
            for one in sides
        )

    @property
    def upgrade_options(self) -> ClusterUpgradeOptions:
        strategy = self.spec.upgrade_strategy
        return (strategy and strategy.cluster_upgrade_options) or ClusterUpgradeOptions()

    def view_of(self, name: str) -> ClusterView | None:
        views = (self.active, self.pending)
        return next((one for one in views if one is not None and one.name == name), None)

    def new_cluster_name(self) -> str:
        """A free name, the same within one reconcile."""
        taken = {cluster.metadata.name for cluster in self.clusters}
        taken |= {self.active_name, self.pending_name}
        base, uid = self.service.metadata.name, self.service.metadata.uid
        numbers = range(len(taken) + 1)
        names_ = (f"{base}-{suffix(self.seed, uid, 'cluster', number)}" for number in numbers)
        return next(name for name in names_ if name not in taken)
