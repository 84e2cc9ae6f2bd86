"""Defaults of the smaller kinds."""

from __future__ import annotations

import base64
from typing import Any

from manta.api.well_known import LABEL_NAMESPACE_NAME
from manta.localplane.apiserver.builtin_kinds.defaults.pods import round_up

Json = dict[str, Any]

RBAC = "rbac.authorization.k8s.io"


def default_secret(secret: Json) -> None:
    """stringData is moved to data and never shown."""
    if not secret.get("type"):
        secret["type"] = "Opaque"
    plain = secret.pop("stringData", None)
    if plain:
        data = secret.setdefault("data", {})
        for key, text in plain.items():
            data[key] = base64.b64encode(text.encode()).decode()


def default_namespace(namespace: Json) -> None:
    meta = namespace.setdefault("metadata", {})
    if meta.get("name"):
        meta["labels"] = {**(meta.get("labels") or {}), LABEL_NAMESPACE_NAME: meta["name"]}


def default_quota(quota: Json) -> None:
    round_up((quota.get("spec") or {}).get("hard"))


def default_limit_range(limit_range: Json) -> None:
    """For containers, `max` is the default limit, and that is the default request."""
    for item in (limit_range.get("spec") or {}).get("limits") or []:
        for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            round_up(item.get(name))
        if item.get("type") != "Container":
            continue
        limits = {**(item.get("max") or {}), **(item.get("default") or {})}
        requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
        for name, amounts in (("default", limits), ("defaultRequest", requests)):
            if amounts:
                item[name] = amounts


def default_claim(claim: Json) -> None:
    spec = claim.setdefault("spec", {})
    if not spec.get("volumeMode"):
        spec["volumeMode"] = "Filesystem"


def default_volume(volume: Json) -> None:
    spec = volume.setdefault("spec", {})
    for name, value in (("persistentVolumeReclaimPolicy", "Retain"), ("volumeMode", "Filesystem")):
        if not spec.get(name):
            spec[name] = value
    if spec.get("hostPath") is not None and spec["hostPath"].get("type") is None:
        spec["hostPath"]["type"] = ""


def default_definition(crd: Json) -> None:
    spec = crd.setdefault("spec", {})
    spec["names"] = names = dict(spec.get("names") or {})
    kind = names.get("kind", "")
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}


def default_endpoint_slice(endpoint_slice: Json) -> None:
    for port in endpoint_slice.get("ports") or []:
        if port.get("name") is None:
            port["name"] = ""
        if port.get("protocol") is None:
            port["protocol"] = "TCP"


def default_endpoints(endpoints: Json) -> None:
    for subset in endpoints.get("subsets") or []:
        for port in subset.get("ports") or []:
            if not port.get("protocol"):
                port["protocol"] = "TCP"


def default_priority_class(priority_class: Json) -> None:
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")


def default_binding(binding: Json) -> None:
    role = binding.setdefault("roleRef", {})
    if not role.get("apiGroup"):
        role["apiGroup"] = RBAC
    for subject in binding.get("subjects") or []:
        if not subject.get("apiGroup") and subject.get("kind") in {"User", "Group"}:
            subject["apiGroup"] = RBAC


def default_ingress_class(ingress_class: Json) -> None:
    parameters = ingress_class.setdefault("spec", {}).get("parameters")
    if parameters is not None and parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


def default_network_policy(policy: Json) -> None:
    spec = policy.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (spec.get("ingress") or []) + (spec.get("egress") or []):
        for port in rule.get("ports") or []:
            if not port.get("protocol"):
                port["protocol"] = "TCP"


def default_node(node: Json) -> None:
    status = node.get("status") or {}
    if status.get("capacity") and not status.get("allocatable"):
        node["status"] = {**status, "allocatable": dict(status["capacity"])}


def default_storage_class(storage_class: Json) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def default_autoscaler(autoscaler: Json) -> None:
    spec = autoscaler.setdefault("spec", {})
    if spec.get("minReplicas") is None:
        spec["minReplicas"] = 1
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
