"""Which columns each resource has, and how its cells are filled: one line per resource."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from manta.localplane.apiserver.served import Served
from manta.localplane.apiserver.tables import cluster, networking, pods, workloads
from manta.localplane.apiserver.tables.custom import custom_table
from manta.localplane.apiserver.tables.definitions import (
    Cells,
    Definitions,
    columns,
    object_age,
)

_EVENTS = (
    "Last Seen, Type, Reason, Object, *Subobject, *Source, Message, *First Seen, *Count, *Name"
)
_BINDINGS = "Name, Role, Age, *Users, *Groups, *ServiceAccounts"
_REPLICAS = "Name, Desired, Current, Ready, Age, *Containers, *Images, *Selector"
_RBAC = "rbac.authorization.k8s.io"

_TABLES: dict[str, tuple[str, Cells]] = {
    "pods": (
        "Name, Ready, Status, Restarts, Age, *IP, *Node, *Nominated Node, *Readiness Gates",
        pods.pod_cells,
    ),
    "services": (
        "Name, Type, Cluster-IP, External-IP, Port(s), Age, *Selector",
        networking.service_cells,
    ),
    "jobs.batch": (
        "Name, Status, Completions, Duration, Age, *Containers, *Images, *Selector",
        workloads.job_cells,
    ),
    "cronjobs.batch": (
        (
            "Name, Schedule, Timezone, Suspend, Active, Last Schedule, Age, *Containers, *Images, "
            "*Selector"
        ),
        workloads.cron_job_cells,
    ),
    "events": (_EVENTS, cluster.event_cells),
    "events.events.k8s.io": (_EVENTS, cluster.event_cells),
    "nodes": (
        (
            "Name, Status, Roles, Age, Version, *Internal-IP, *External-IP, *OS-Image, "
            "*Kernel-Version, *Container-Runtime"
        ),
        cluster.node_cells,
    ),
    "namespaces": ("Name, Status, Age", cluster.namespace_cells),
    "configmaps": ("Name, Data, Age", cluster.config_map_cells),
    "secrets": ("Name, Type, Data, Age", cluster.secret_cells),
    "endpointslices.discovery.k8s.io": (
        "Name, AddressType, Ports, Endpoints, Age",
        networking.endpoint_slice_cells,
    ),
    "endpoints": ("Name, Endpoints, Age", networking.endpoints_cells),
    "deployments.apps": (
        "Name, Ready, Up-to-date, Available, Age, *Containers, *Images, *Selector",
        workloads.deployment_cells,
    ),
    "replicasets.apps": (_REPLICAS, workloads.replica_set_cells),
    "replicationcontrollers": (_REPLICAS, workloads.replica_set_cells),
    "statefulsets.apps": ("Name, Ready, Age, *Containers, *Images", workloads.stateful_set_cells),
    "daemonsets.apps": (
        (
            "Name, Desired, Current, Ready, Up-to-date, Available, Node Selector, Age, *Containers, "
            "*Images, *Selector"
        ),
        workloads.daemon_set_cells,
    ),
    "podtemplates": ("Name, Containers, Images, Pod Labels", workloads.pod_template_cells),
    "horizontalpodautoscalers.autoscaling": (
        "Name, Reference, Targets, MinPods, MaxPods, Replicas, Age",
        workloads.autoscaler_cells,
    ),
    "ingresses.networking.k8s.io": (
        "Name, Class, Hosts, Address, Ports, Age",
        networking.ingress_cells,
    ),
    "networkpolicies.networking.k8s.io": (
        "Name, Pod-Selector, Age",
        networking.network_policy_cells,
    ),
    "leases.coordination.k8s.io": ("Name, Holder, Age", cluster.lease_cells),
    "persistentvolumeclaims": (
        (
            "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, "
            "*VolumeMode"
        ),
        cluster.claim_cells,
    ),
    "persistentvolumes": (
        (
            "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, "
            "VolumeAttributesClass, Reason, Age, *VolumeMode"
        ),
        cluster.volume_cells,
    ),
    f"roles.{_RBAC}": ("Name, Created At", cluster.role_cells),
    f"clusterroles.{_RBAC}": ("Name, Created At", cluster.role_cells),
    f"rolebindings.{_RBAC}": (_BINDINGS, cluster.role_binding_cells),
    f"clusterrolebindings.{_RBAC}": (_BINDINGS, cluster.role_binding_cells),
    "customresourcedefinitions.apiextensions.k8s.io": (
        "Name, Created At",
        cluster.role_cells,
    ),
    "limitranges": ("Name, Created At", cluster.role_cells),
    "ingressclasses.networking.k8s.io": (
        "Name, Controller, Parameters, Age",
        networking.ingress_class_cells,
    ),
    "resourcequotas": ("Name, Request, Limit, Age", cluster.quota_cells),
    "priorityclasses.scheduling.k8s.io": (
        "Name, Value, Global-Default, Age, PreemptionPolicy",
        cluster.priority_class_cells,
    ),
    "storageclasses.storage.k8s.io": (
        "Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age",
        cluster.storage_class_cells,
    ),
    "poddisruptionbudgets.policy": (
        "Name, Min Available, Max Unavailable, Allowed Disruptions, Age",
        cluster.disruption_budget_cells,
    ),
}

_TYPES = {
    "Created At": "date",
    "Desired": "integer",
    "Current": "integer",
    "Active": "integer",
    "Value": "integer",
    "Allowed Disruptions": "integer",
    "Suspend": "boolean",
    "Global-Default": "boolean",
}
_COUNTS = {
    "replicasets": ("Ready",),
    "replicationcontrollers": ("Ready",),
    "daemonsets": ("Ready", "Up-to-date", "Available"),
}
"""Columns that are numbers here and text elsewhere."""


def table_of(served: Served) -> tuple[Definitions, Cells]:
    if served.custom is not None:
        return custom_table(served.custom)
    known = _TABLES.get(served.group_resource)
    if known is None:
        return columns("Name, Age"), _name_and_age
    text, cells = known
    return [_typed(served, column) for column in columns(text)], cells


def _typed(served: Served, column: dict[str, Any]) -> dict[str, Any]:
    name = column["name"]
    if name in _COUNTS.get(served.plural, ()):
        return column | {"type": "integer"}
    return column | {"type": _TYPES.get(name, column["type"])}


def _name_and_age(obj: dict[str, Any], now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], object_age(obj, now)]
