"""Networking, storage and scheduling resources, Leases, Events and CustomResourceDefinitions."""

from __future__ import annotations

from typing import Final

from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.builtin_kinds.checks import (
    classes,
    cluster,
    data,
    endpoints,
    events,
)
from manta.localplane.apiserver.builtin_kinds.defaults import objects
from manta.localplane.apiserver.builtin_resources.core import EVENT_TABLE
from manta.localplane.apiserver.builtin_resources.registration import (
    EDIT,
    VIEW,
    VIEW_AND_EDIT,
    builtin,
)
from manta.localplane.apiserver.events import NEW_EVENT_FIELDS
from manta.localplane.apiserver.strategies.builtin import EventStrategy
from manta.localplane.apiserver.strategies.definition import DefinitionStrategy
from manta.localplane.apiserver.tables import cluster as cells
from manta.localplane.apiserver.tables import networking
from manta.localplane.apiserver.tables.columns import table

CLUSTER: Final[tuple[ApiResource, ...]] = (
    builtin(
        "coordination.k8s.io/v1/leases",
        "Lease",
        check=data.check_lease,
        shallow=True,
        allow_unconditional_update=False,
        allow_create_on_update=True,
        table=table("Name, Holder, Age", cells.lease_cells),
        roles=EDIT,
    ),
    builtin(
        "discovery.k8s.io/v1/endpointslices",
        "EndpointSlice",
        set_defaults=objects.default_endpoint_slice,
        check=endpoints.check_endpoint_slice,
        table=table("Name, AddressType, Ports, Endpoints, Age", networking.endpoint_slice_cells),
        generation=True,
        roles=VIEW,
    ),
    builtin(
        "events.k8s.io/v1/events",
        "Event",
        EventStrategy,
        check=events.check_event,
        shallow=True,
        allow_create_on_update=True,
        table=EVENT_TABLE,
        short_names=("ev",),
        fields=NEW_EVENT_FIELDS,
        storage_name="events",
        roles=VIEW_AND_EDIT,
    ),
    builtin(
        "networking.k8s.io/v1/ingresses",
        "Ingress",
        check=cluster.check_ingress,
        table=table("Name, Class, Hosts, Address, Ports, Age", networking.ingress_cells),
        short_names=("ing",),
        status=True,
        generation=True,
        roles=VIEW_AND_EDIT,
    ),
    builtin(
        "networking.k8s.io/v1/ingressclasses",
        "IngressClass",
        set_defaults=objects.default_ingress_class,
        check=classes.check_ingress_class,
        table=table("Name, Controller, Parameters, Age", networking.ingress_class_cells),
        namespaced=False,
        generation=True,
    ),
    builtin(
        "networking.k8s.io/v1/networkpolicies",
        "NetworkPolicy",
        set_defaults=objects.default_network_policy,
        check=cluster.check_network_policy,
        table=table("Name, Pod-Selector, Age", networking.network_policy_cells),
        short_names=("netpol",),
        generation=True,
        roles=VIEW_AND_EDIT,
    ),
    builtin(
        "policy/v1/poddisruptionbudgets",
        "PodDisruptionBudget",
        check=data.check_budget,
        allow_unconditional_update=False,
        table=table(
            "Name, Min Available, Max Unavailable, Allowed Disruptions, Age",
            cells.disruption_budget_cells,
        ),
        short_names=("pdb",),
        status=True,
        generation=True,
        roles=VIEW_AND_EDIT,
    ),
    builtin(
        "scheduling.k8s.io/v1/priorityclasses",
        "PriorityClass",
        set_defaults=objects.default_priority_class,
        check=data.check_priority_class,
        shallow=True,
        table=table(
            "Name, Value, Global-Default, Age, PreemptionPolicy", cells.priority_class_cells
        ),
        namespaced=False,
        short_names=("pc",),
        generation=True,
    ),
    builtin(
        "storage.k8s.io/v1/storageclasses",
        "StorageClass",
        set_defaults=objects.default_storage_class,
        check=classes.check_storage_class,
        table=table(
            "Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age",
            cells.storage_class_cells,
        ),
        namespaced=False,
        short_names=("sc",),
    ),
    builtin(
        "node.k8s.io/v1/runtimeclasses",
        "RuntimeClass",
        check=classes.check_runtime_class,
        allow_unconditional_update=False,
        allow_create_on_update=True,
        namespaced=False,
    ),
    builtin(
        "apiextensions.k8s.io/v1/customresourcedefinitions",
        "CustomResourceDefinition",
        DefinitionStrategy,
        set_defaults=objects.default_definition,
        shallow=True,
        allow_unconditional_update=False,
        table=table("Name, Created At", cells.role_cells),
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        status=True,
        generation=True,
        return_deleted_object=True,
    ),
)
