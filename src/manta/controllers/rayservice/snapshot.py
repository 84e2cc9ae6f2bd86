"""Everything that one round of a RayService may know. Built by `observe`, read by the planners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from manta.api.conditions import is_true
from manta.api.core import Pod, Service
from manta.api.gateway import Gateway, HTTPRoute
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType, RayCluster
from manta.api.ray.service import (
    AppStatus,
    ClusterUpgradeOptions,
    RayService,
    RayServiceSpec,
    RayServiceStatuses,
    ServeSubmission,
    ServiceUpgradeType,
)
from manta.rules.pod_health import is_ready, is_terminating
from manta.rules.settings import Settings
from manta.rules.spec_hash import spec_hash
from manta.rules.suffix import suffix
from manta.rules.validation.violation import Violation

DELETE_AFTER: Final = "manta.ray.io/delete-after"
"""Annotation of a RayCluster that serves no more: when it is deleted."""


@dataclass(frozen=True, slots=True)
class NotAsked:
    """The dashboard was not consulted, or has not answered yet."""


@dataclass(frozen=True, slots=True)
class Silent:
    """The dashboard gave no answer that can be trusted."""

    why: str


@dataclass(frozen=True, slots=True)
class Told:
    """What Serve says of its applications."""

    applications: Mapping[str, AppStatus]
    proxies: frozenset[str] = frozenset()
    """Addresses of the nodes on which Serve keeps a proxy."""


Answer = NotAsked | Silent | Told


@dataclass(frozen=True)
class ClusterSight:
    """One cluster of the service, and what stands around it."""

    cluster: RayCluster
    head_pod: Pod | None = None
    pods: tuple[Pod, ...] = ()
    """All its Pods, the head among them."""
    head_service: Service | None = None
    serve_service: Service | None = None
    """Its own serve Service; only while traffic is split."""
    submission: ServeSubmission | None = None
    """What its Serve was given last, as far as it was recorded."""
    answer: Answer = NotAsked()
    proxy_answers: bool | None = None
    """Whether the Serve proxy on the head takes requests; None: nobody asked."""

    @property
    def name(self) -> str:
        return self.cluster.metadata.name

    @property
    def is_going(self) -> bool:
        return self.cluster.metadata.deletion_timestamp is not None

    @property
    def head(self) -> str:
        """Which incarnation of the head there is now; empty when there is none."""
        if self.head_pod is None:
            return ""
        statuses = self.head_pod.status.container_statuses
        restarts = statuses[0].restart_count if statuses else 0
        return f"{self.head_pod.metadata.uid}/{restarts}"

    @property
    def head_is_ready(self) -> bool:
        """By the cluster's own word, or by the Pod's where the word lags behind (C49)."""
        said = is_true(self.cluster.status.conditions, ClusterConditionType.HEAD_POD_READY)
        return self.head_pod is not None and (said or is_ready(self.head_pod))

    @property
    def submitted(self) -> str:
        """Tells one submission from another; empty before the first one."""
        last = self.submission
        if last is None:
            return ""
        return f"{last.config_hash}@{last.head}+{last.resubmissions}"

    @property
    def serving_pods(self) -> tuple[Pod, ...]:
        """The Pods that its serve Service would send requests to."""
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
    """Drawn anew for every round; names derive from it and from nothing else."""
    violations: tuple[Violation, ...] = ()
    cluster_spec: Mapping[str, Any] = field(default_factory=dict)
    """`spec.rayClusterConfig` as the user wrote it, unknown fields and all."""
    serve_config: Mapping[str, Any] = field(default_factory=dict)
    clusters: tuple[RayCluster, ...] = ()
    """Every RayCluster that this very RayService controls."""
    active: ClusterSight | None = None
    pending: ClusterSight | None = None
    head_service: Service | None = None
    serve_service: Service | None = None
    own_services: tuple[Service, ...] = ()
    """All Services that this very RayService controls."""
    endpoints: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """UIDs of the ready Pods behind each serve Service, by its name."""
    gateway: Gateway | None = None
    route: HTTPRoute | None = None
    gateway_trouble: str = ""
    """Why Gateway and HTTPRoute could not be read."""
    drops_submissions: bool = False
    """The CRD here does not know where submissions are recorded: they are only remembered."""

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
        """What is done about a spec that needs new Pods."""
        chosen = self.spec.upgrade_strategy.type if self.spec.upgrade_strategy else None
        if chosen:
            return chosen
        newest, none = ServiceUpgradeType.NEW_CLUSTER, ServiceUpgradeType.NONE
        return newest if self.settings.zero_downtime else none

    @property
    def is_incremental(self) -> bool:
        return self.strategy == ServiceUpgradeType.INCREMENTAL

    @property
    def was_split(self) -> bool:
        """Traffic has been split by shares, now or under an earlier strategy."""
        sides = (self.status.active_service_status, self.status.pending_service_status)
        return any(side.target_capacity is not None for side in sides)

    @property
    def upgrade_options(self) -> ClusterUpgradeOptions:
        strategy = self.spec.upgrade_strategy
        return (strategy and strategy.cluster_upgrade_options) or ClusterUpgradeOptions()

    def sight_of(self, name: str) -> ClusterSight | None:
        sights = (self.active, self.pending)
        return next((one for one in sights if one is not None and one.name == name), None)

    def new_cluster_name(self) -> str:
        """Equal within a round, and never one that is taken."""
        taken = {cluster.metadata.name for cluster in self.clusters}
        taken |= {self.active_name, self.pending_name}
        base, uid = self.service.metadata.name, self.service.metadata.uid
        numbers = range(len(taken) + 1)
        names_ = (f"{base}-{suffix(self.seed, uid, 'cluster', number)}" for number in numbers)
        return next(name for name in names_ if name not in taken)
