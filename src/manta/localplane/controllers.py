"""The built-in controllers and the scheduler.

They share one manager: one informer per kind, one recorder, one clock. Only watch events and timers of
real deadlines wake them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from manta.api import resources as kinds
from manta.api.coordination import Lease
from manta.api.meta import Object
from manta.api.resources import Resource
from manta.api.revisions import ControllerRevision
from manta.kube.client import Client
from manta.localplane.builtin.cronjob.controller import CronJobController
from manta.localplane.builtin.daemonset.controller import DaemonSetController
from manta.localplane.builtin.deployment.controller import DeploymentController
from manta.localplane.builtin.endpoints.controller import EndpointsController
from manta.localplane.builtin.garbage_collector.controller import GarbageCollector
from manta.localplane.builtin.job.controller import JobController
from manta.localplane.builtin.metadata_watcher.watcher import MetadataWatcher
from manta.localplane.builtin.namespace.controller import NamespaceController
from manta.localplane.builtin.nodelifecycle.controller import NodeLifecycleController
from manta.localplane.builtin.quota.controller import QuotaController
from manta.localplane.builtin.replicaset.controller import ReplicaSetController
from manta.localplane.builtin.serviceaccount.controller import ServiceAccountController
from manta.localplane.builtin.serviceaccount.token_controller import TokenController
from manta.localplane.builtin.statefulset.controller import StatefulSetController
from manta.localplane.builtin.storageprotection.controller import ClaimProtection, VolumeProtection
from manta.localplane.builtin.views import (
    Claim,
    Deployment,
    EndpointSlice,
    Job,
    Namespace,
    Node,
    Pod,
    Quota,
    ReplicaSet,
    Service,
)
from manta.localplane.builtin.workload_views import CronJob, DaemonSet, StatefulSet
from manta.localplane.fakenodes.controller import FakeNodes
from manta.localplane.fakenodes.options import FakeNodeOptions
from manta.localplane.scheduler.scheduler import Scheduler
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
"""Kinds that a controller watches in full: the garbage collector shares these informers."""


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    root_ca: str = ""
    """The certificate of the cluster in PEM, for `kube-root-ca.crt` in every namespace."""
    node_lifecycle: bool = True
    """False: nodes are never marked unreachable, for nodes without Leases."""
    fake_nodes: FakeNodeOptions | None = None
    """Nodes without containers, for tests and benchmarks."""
    random: Random = field(default_factory=Random)
    """The source of jitter and of Event names; seeded in simulations."""
    registry: Registry | None = None
    """For the metrics of the controllers; None: they are not exposed."""


def built_in_controllers(client: Client, clock: Clock, options: ControllerOptions) -> Manager:
    """Return a manager with all built-in controllers."""
    recorder = Recorder(client, clock, options.random, instance="manta-control-plane")
    manager = Manager(client, clock, options.random, recorder=recorder, registry=options.registry)
    shared: dict[Resource, Informer[Any]] = {
        resource: manager.informer(resource, view) for resource, view in _SHARED.items()
    }
    metadata_watcher = MetadataWatcher(manager, shared)
    manager.add_service("all kinds", metadata_watcher.run)
    GarbageCollector(manager, metadata_watcher)
    NamespaceController(manager, metadata_watcher)
    QuotaController(manager, metadata_watcher)
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
    """Run all built-in controllers until cancelled."""
    await built_in_controllers(client, clock, options or ControllerOptions()).run()
