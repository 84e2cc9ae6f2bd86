"""Rows of Nodes, Namespaces, configuration, storage, RBAC and Events."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from manta.api.well_known import ANNOTATION_DEFAULT_STORAGE_CLASS, LABEL_NODE_ROLE
from manta.localplane.apiserver.tables.columns import object_age, since

Object = dict[str, Any]
_ROLE = "node-role.kubernetes.io/"


def node_cells(node: Object, now: datetime) -> list[Any]:
    status, labels = node.get("status") or {}, node["metadata"].get("labels") or {}
    info = status.get("nodeInfo") or {}
    roles = [name[len(_ROLE) :] for name in labels if name.startswith(_ROLE)]
    if labels.get(LABEL_NODE_ROLE):
        roles.append(labels[LABEL_NODE_ROLE])
    return [
        node["metadata"]["name"],
        _node_status(node, status),
        ",".join(sorted(roles)) or "<none>",
        object_age(node, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _node_status(node: Object, status: Object) -> str:
    ready = next(
        (one for one in status.get("conditions") or () if one.get("type") == "Ready"), None
    )
    shown = ["Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"]
    if (node.get("spec") or {}).get("unschedulable"):
        shown.append("SchedulingDisabled")
    return ",".join(shown)


def _address(status: Object, kind: str) -> str:
    for one in status.get("addresses") or ():
        if one.get("type") == kind:
            return str(one.get("address"))
    return "<none>"


def namespace_cells(namespace: Object, now: datetime) -> list[Any]:
    phase = (namespace.get("status") or {}).get("phase", "")
    return [namespace["metadata"]["name"], phase, object_age(namespace, now)]


def config_map_cells(config_map: Object, now: datetime) -> list[Any]:
    count = len(config_map.get("data") or ()) + len(config_map.get("binaryData") or ())
    return [config_map["metadata"]["name"], count, object_age(config_map, now)]


def secret_cells(secret: Object, now: datetime) -> list[Any]:
    count = len(secret.get("data") or ())
    return [secret["metadata"]["name"], secret.get("type", ""), count, object_age(secret, now)]


def claim_cells(claim: Object, now: datetime) -> list[Any]:
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    phase = "Terminating" if claim["metadata"].get("deletionTimestamp") else status.get("phase")
    bound = bool(spec.get("volumeName"))
    return [
        claim["metadata"]["name"],
        phase or "",
        spec.get("volumeName") or "",
        (status.get("capacity") or {}).get("storage", "") if bound else "",
        _modes(status.get("accessModes") or ()) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        object_age(claim, now),
        spec.get("volumeMode") or "<unset>",
    ]


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(modes: Iterable[str]) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in modes)


def volume_cells(volume: Object, now: datetime) -> list[Any]:
    spec, status = volume.get("spec") or {}, volume.get("status") or {}
    claim = spec.get("claimRef") or {}
    return [
        volume["metadata"]["name"],
        (spec.get("capacity") or {}).get("storage", ""),
        _modes(spec.get("accessModes") or ()),
        spec.get("persistentVolumeReclaimPolicy", ""),
        status.get("phase", ""),
        f"{claim.get('namespace')}/{claim.get('name')}" if claim else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason") or "",
        object_age(volume, now),
        spec.get("volumeMode") or "<unset>",
    ]


def quota_cells(quota: Object, now: datetime) -> list[Any]:
    status = quota.get("status") or {}
    used, hard = status.get("used") or {}, status.get("hard") or {}
    requested: list[str] = []
    limited: list[str] = []
    for name in sorted(hard):
        shown = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limited if name.startswith("limits.") else requested).append(shown)
    name = quota["metadata"]["name"]
    return [name, ", ".join(requested), ", ".join(limited), object_age(quota, now)]


def lease_cells(lease: Object, now: datetime) -> list[Any]:
    holder = (lease.get("spec") or {}).get("holderIdentity") or ""
    return [lease["metadata"]["name"], holder, object_age(lease, now)]


def role_cells(role: Object, _: datetime) -> list[Any]:
    return [role["metadata"]["name"], role["metadata"].get("creationTimestamp")]


def role_binding_cells(binding: Object, now: datetime) -> list[Any]:
    ref = binding.get("roleRef") or {}
    names: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for one in binding.get("subjects") or ():
        prefix = f"{one.get('namespace', '')}/" if one.get("kind") == "ServiceAccount" else ""
        names.setdefault(one.get("kind", ""), []).append(f"{prefix}{one.get('name')}")
    return [
        binding["metadata"]["name"],
        f"{ref.get('kind')}/{ref.get('name')}",
        object_age(binding, now),
        ", ".join(names["User"]),
        ", ".join(names["Group"]),
        ", ".join(names["ServiceAccount"]),
    ]


def priority_class_cells(priority: Object, now: datetime) -> list[Any]:
    return [
        priority["metadata"]["name"],
        priority.get("value", 0),
        bool(priority.get("globalDefault")),
        object_age(priority, now),
        priority.get("preemptionPolicy", "PreemptLowerPriority"),
    ]


def storage_class_cells(storage: Object, now: datetime) -> list[Any]:
    annotations = storage["metadata"].get("annotations") or {}
    name = storage["metadata"]["name"]
    if annotations.get(ANNOTATION_DEFAULT_STORAGE_CLASS) == "true":
        name += " (default)"
    return [
        name,
        storage.get("provisioner", ""),
        storage.get("reclaimPolicy", "Delete"),
        storage.get("volumeBindingMode", "Immediate"),
        bool(storage.get("allowVolumeExpansion")),
        object_age(storage, now),
    ]


def disruption_budget_cells(budget: Object, now: datetime) -> list[Any]:
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    return [
        budget["metadata"]["name"],
        str(spec["minAvailable"]) if "minAvailable" in spec else "N/A",
        str(spec["maxUnavailable"]) if "maxUnavailable" in spec else "N/A",
        status.get("disruptionsAllowed") or 0,
        object_age(budget, now),
    ]


def event_cells(event: Object, now: datetime) -> list[Any]:
    """Reads both forms: core/v1 and events.k8s.io/v1."""
    about = event.get("involvedObject") or event.get("regarding") or {}
    source = event.get("source") or event.get("deprecatedSource") or {}
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp")
    last = event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    series = event.get("series") or {}
    first = first or event.get("eventTime")
    last = series.get("lastObservedTime") or last or first
    component = (
        source.get("component")
        or event.get("reportingComponent")
        or event.get("reportingController")
    )
    count = series.get("count") or event.get("count") or event.get("deprecatedCount") or 1
    kind = str(about.get("kind") or "").lower()
    return [
        since(last, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        ", ".join(part for part in (component, source.get("host")) if part),
        (event.get("message") or event.get("note") or "").strip(),
        since(first, now),
        count,
        event["metadata"]["name"],
    ]
