"""The table of built-in controllers, and the one call that runs them all until cancelled.

They share one manager: one informer per kind, one recorder, one clock. When nothing happens they
do nothing: everything is driven by watches and by timers that stand for real deadlines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from manta.api import resources as kinds
from manta.api.meta import Object
from manta.api.resources import Resource
from manta.kube.client import Client
from manta.localplane.builtin.cronjob.controller import CronJobController
from manta.localplane.builtin.daemonset.controller import DaemonSetController
from manta.localplane.builtin.deployment.controller import DeploymentController
from manta.localplane.builtin.endpoints.controller import EndpointsController
from manta.localplane.builtin.everything.watcher import Everything
from manta.localplane.builtin.garbage_collector.controller import GarbageCollector
from manta.localplane.builtin.job.controller import JobController
from manta.localplane.builtin.namespace.controller import NamespaceController
from manta.localplane.builtin.nodelifecycle.controller import NodeLifecycleController
from manta.localplane.builtin.quota.controller import QuotaController
from manta.localplane.builtin.replicaset.controller import ReplicaSetController
from manta.localplane.builtin.serviceaccount.controller import ServiceAccountController
from manta.localplane.builtin.serviceaccount.token_controller import TokenController
from manta.localplane.builtin.statefulset.controller import StatefulSetController
from manta.localplane.builtin.storageprotection.controller import (
    ClaimProtection,
    VolumeProtection,
)
from manta.localplane.builtin.views import (
    Claim,
    Deployment,
    EndpointSlice,
    Job,
    Lease,
    Namespace,
    Node,
    Pod,
    Quota,
    ReplicaSet,
    Service,
)
from manta.localplane.builtin.workload_views import (
    ControllerRevision,
    CronJob,
    DaemonSet,
    StatefulSet,
)
from manta.localplane.fakenodes.kubelet import FakeNodes
from manta.localplane.fakenodes.machines import FakeNodeOptions
from manta.localplane.scheduler.loop import Scheduler
from manta.runtime.clock import Clock
from manta.runtime.informer import Informer
from manta.runtime.manager import Manager
from manta.runtime.metrics import Registry
from manta.runtime.recorder import Recorder

_SHARED: dict[Resource, type[Any]] = {
    kinds.CONTROLLER_REVISIONS: ControllerRevision,
    kinds.CRON_JOBS: CronJob,
    kinds.DAEMON_SETS: DaemonSet,
    kinds.DEPLOYMENTS: Deployment,
    kinds.ENDPOINT_SLICES: EndpointSlice,
    kinds.JOBS: Job,
    kinds.LEASES: Lease,
    kinds.NAMESPACES: Namespace,
    kinds.NODES: Node,
    kinds.PERSISTENT_VOLUME_CLAIMS: Claim,
    kinds.PODS: Pod,
    kinds.REPLICA_SETS: ReplicaSet,
    kinds.RESOURCE_QUOTAS: Quota,
    kinds.SERVICES: Service,
    kinds.SERVICE_ACCOUNTS: Object,
    kinds.STATEFUL_SETS: StatefulSet,
}
"""Kinds that some controller follows in full: the collector shares those informers."""


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    root_ca: str = ""
    """The certificate of the cluster in PEM, for `kube-root-ca.crt` in every namespace."""
    node_lifecycle: bool = True
    """False: nodes are never marked as lost, as when nothing renews their Leases."""
    fake_nodes: FakeNodeOptions | None = None
    """Nodes without containers, for tests and benchmarks."""
    random: Random = field(default_factory=Random)
    """The source of jitter and of Event names; seeded in simulations."""
    registry: Registry | None = None
    """Where the controllers count; None: in one that nobody reads."""


def built_in_controllers(client: Client, clock: Clock, options: ControllerOptions) -> Manager:
    """A manager with everything that makes a cluster behave like one."""
    recorder = Recorder(client, clock, options.random, instance="manta-control-plane")
    manager = Manager(client, clock, options.random, recorder=recorder, registry=options.registry)
    shared: dict[Resource, Informer[Any]] = {
        resource: manager.informer(resource, view) for resource, view in _SHARED.items()
    }
    everything = Everything(manager, shared)
    manager.add_service("all kinds", everything.run)
    GarbageCollector(manager, everything)
    NamespaceController(manager, everything)
    QuotaController(manager, everything)
    ServiceAccountController(manager, options.root_ca)
    TokenController(manager, options.root_ca)
    JobController(manager)
    ReplicaSetController(manager)
    DeploymentController(manager)
    StatefulSetController(manager)
    DaemonSetController(manager)
    CronJobController(manager)
    EndpointsController(manager)
    ClaimProtection(manager)
    VolumeProtection(manager)
    if options.node_lifecycle:
        NodeLifecycleController(manager)
    manager.add_service("scheduler", Scheduler(manager).run)
    if options.fake_nodes:
        FakeNodes(manager, options.fake_nodes)
    return manager


async def run_builtin_controllers(
    client: Client, clock: Clock, options: ControllerOptions | None = None
) -> None:
    """Run them all until cancelled."""
    await built_in_controllers(client, clock, options or ControllerOptions()).run()
