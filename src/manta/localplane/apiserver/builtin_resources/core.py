"""The resources of the core group."""

from __future__ import annotations

from typing import Final

from manta.api.names import dns1035_label_errors
from manta.localplane.apiserver.api_resources import ApiResource, Subresource
from manta.localplane.apiserver.builtin_kinds import preparation
from manta.localplane.apiserver.builtin_kinds.checks import (
    cluster,
    data,
    endpoints,
    events,
    limits,
    persistent_volumes,
    services,
)
from manta.localplane.apiserver.builtin_kinds.defaults import objects
from manta.localplane.apiserver.builtin_kinds.defaults.services import allocate, default_service
from manta.localplane.apiserver.builtin_kinds.names import namespace_name_errors
from manta.localplane.apiserver.builtin_resources.registration import (
    ALL,
    ANY,
    EDIT,
    VIEW,
    VIEW_AND_EDIT,
    builtin,
)
from manta.localplane.apiserver.builtin_resources.workloads import (
    POD,
    POD_TEMPLATE,
    REPLICATION_CONTROLLER,
)
from manta.localplane.apiserver.events import EVENT_FIELDS
from manta.localplane.apiserver.tables import cluster as cells
from manta.localplane.apiserver.tables import networking
from manta.localplane.apiserver.tables.columns import table

EVENT_TABLE: Final = table(
    "Last Seen, Type, Reason, Object, *Subobject, *Source, Message, *First Seen, *Count, *Name",
    cells.event_cells,
)

CORE: Final[tuple[ApiResource, ...]] = (
    builtin("v1/bindings", "Binding", verbs=("create",), roles=VIEW),
    builtin(
        "v1/configmaps",
        "ConfigMap",
        check=data.check_config_map,
        shallow=True,
        table=table("Name, Data, Age", cells.config_map_cells),
        short_names=("cm",),
        roles=VIEW_AND_EDIT,
    ),
    builtin(
        "v1/endpoints",
        "Endpoints",
        set_defaults=objects.default_endpoints,
        check=endpoints.check_endpoints,
        allow_create_on_update=True,
        table=table("Name, Endpoints, Age", networking.endpoints_cells),
        short_names=("ep",),
        warning="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        roles=VIEW,
    ),
    builtin(
        "v1/events",
        "Event",
        check=events.check_core_event,
        shallow=True,
        allow_create_on_update=True,
        table=EVENT_TABLE,
        short_names=("ev",),
        fields=EVENT_FIELDS,
        roles=VIEW_AND_EDIT,
    ),
    builtin(
        "v1/limitranges",
        "LimitRange",
        set_defaults=objects.default_limit_range,
        check=limits.check_limit_range,
        allow_create_on_update=True,
        table=table("Name, Created At", cells.role_cells),
        short_names=("limits",),
        roles=VIEW,
    ),
    builtin(
        "v1/namespaces",
        "Namespace",
        set_defaults=objects.default_namespace,
        on_create=preparation.prepare_new_namespace,
        check_name=namespace_name_errors,
        shallow=True,
        table=table("Name, Status, Age", cells.namespace_cells),
        namespaced=False,
        short_names=("ns",),
        fields=("status.phase",),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        subresources=(Subresource("finalize", "Namespace", ("update",)),),
        status=True,
        return_deleted_object=True,
        roles=VIEW,
    ),
    builtin(
        "v1/nodes",
        "Node",
        set_defaults=objects.default_node,
        check=cluster.check_node,
        client_status=True,
        table=table(
            "Name, Status, Roles, Age, Version, *Internal-IP, *External-IP, *OS-Image, "
            "*Kernel-Version, *Container-Runtime",
            cells.node_cells,
        ),
        namespaced=False,
        short_names=("no",),
        fields=("spec.unschedulable",),
        subresources=(Subresource("proxy", "NodeProxyOptions", ANY),),
        status=True,
    ),
    builtin(
        "v1/persistentvolumeclaims",
        "PersistentVolumeClaim",
        set_defaults=objects.default_claim,
        on_create=preparation.prepare_new_claim,
        check=data.check_claim,
        table=table(
            "Name, Status, Volume, Capacity, Access Modes, StorageClass, "
            "VolumeAttributesClass, Age, *VolumeMode",
            cells.claim_cells,
        ),
        short_names=("pvc",),
        status=True,
        return_deleted_object=True,
        roles=VIEW_AND_EDIT,
    ),
    builtin(
        "v1/persistentvolumes",
        "PersistentVolume",
        set_defaults=objects.default_volume,
        on_create=preparation.prepare_new_volume,
        check=persistent_volumes.check_persistent_volume,
        table=table(
            "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, "
            "VolumeAttributesClass, Reason, Age, *VolumeMode",
            cells.volume_cells,
        ),
        namespaced=False,
        short_names=("pv",),
        status=True,
        return_deleted_object=True,
    ),
    POD,
    POD_TEMPLATE,
    REPLICATION_CONTROLLER,
    builtin(
        "v1/resourcequotas",
        "ResourceQuota",
        set_defaults=objects.default_quota,
        check=data.check_quota,
        table=table("Name, Request, Limit, Age", cells.quota_cells),
        short_names=("quota",),
        status=True,
        return_deleted_object=True,
        roles=VIEW,
    ),
    builtin(
        "v1/secrets",
        "Secret",
        set_defaults=objects.default_secret,
        check=data.check_secret,
        shallow=True,
        table=table("Name, Type, Data, Age", cells.secret_cells),
        fields=("type",),
        roles=EDIT,
    ),
    builtin(
        "v1/serviceaccounts",
        "ServiceAccount",
        shallow=True,
        short_names=("sa",),
        subresources=(
            Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),
        ),
        return_deleted_object=True,
        roles=VIEW_AND_EDIT,
    ),
    builtin(
        "v1/services",
        "Service",
        set_defaults=default_service,
        on_create=allocate,
        on_update=preparation.prepare_changed_service,
        check=services.check_service,
        check_name=dns1035_label_errors,
        allow_create_on_update=True,
        table=table(
            "Name, Type, Cluster-IP, External-IP, Port(s), Age, *Selector", networking.service_cells
        ),
        short_names=("svc",),
        categories=ALL,
        fields=("spec.clusterIP", "spec.type"),
        subresources=(Subresource("proxy", "ServiceProxyOptions", ANY),),
        status=True,
        return_deleted_object=True,
        roles=VIEW_AND_EDIT,
    ),
)
