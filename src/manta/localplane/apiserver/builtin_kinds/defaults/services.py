"""Defaults of Services, and their addresses and node ports."""

from __future__ import annotations

from typing import Any

from manta.localplane.apiserver.builtin_kinds.checks.rules import is_ip
from manta.localplane.apiserver.builtin_kinds.context import Context

Json = dict[str, Any]

HEADLESS = "None"


def default_service(service: Json) -> None:
    spec = service.setdefault("spec", {})
    if not spec.get("type"):
        spec["type"] = "ClusterIP"
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client_ip = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        client_ip.setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports") or []:
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    _default_policies(spec)


def _default_policies(spec: Json) -> None:
    if spec["type"] in {"NodePort", "LoadBalancer"}:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] in {"ClusterIP", "NodePort", "LoadBalancer"}:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def keep_allocated(old: Json, new: Json) -> None:
    """A PUT without addresses and node ports keeps those of the old object."""
    before, spec = old.get("spec") or {}, new["spec"]
    if spec.get("type") == "ExternalName":
        return
    if not spec.get("clusterIP") and not spec.get("clusterIPs") and before.get("clusterIP"):
        spec["clusterIP"] = before["clusterIP"]
        spec["clusterIPs"] = list(before.get("clusterIPs") or [before["clusterIP"]])
    elif spec.get("clusterIP") != before.get("clusterIP") and spec.get("clusterIPs") == before.get(
        "clusterIPs"
    ):
        spec["clusterIPs"] = []  # the client changed clusterIP only; clusterIPs follows
    for name in ("ipFamilies", "ipFamilyPolicy"):
        if not spec.get(name) and before.get(name):
            spec[name] = before[name]
    if _needs_node_ports(spec) and _needs_node_ports(before):
        used = {port["nodePort"] for port in spec.get("ports") or [] if port.get("nodePort")}
        known = {
            (port.get("protocol", "TCP"), port["port"]): port["nodePort"]
            for port in before.get("ports") or []
            if port.get("nodePort") and port["nodePort"] not in used
        }
        for port in spec.get("ports") or []:
            if not port.get("nodePort") and (port["protocol"], port.get("port")) in known:
                port["nodePort"] = known[port["protocol"], port["port"]]


def drop_unused(old: Json, new: Json) -> None:
    """Drop the addresses and ports that the new type of a Service does not use."""
    before, spec = old.get("spec") or {}, new["spec"]
    if spec.get("type") == "ExternalName" and before.get("type") != "ExternalName":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(name) == before.get(name):
                spec.pop(name, None)
    if not _needs_node_ports(spec) and _needs_node_ports(before):
        known = {port.get("nodePort") for port in before.get("ports") or []}
        for port in spec.get("ports") or []:
            if port.get("nodePort") in known:
                port.pop("nodePort", None)
    if spec.get("type") not in {"NodePort", "LoadBalancer"}:
        spec.pop("externalTrafficPolicy", None)
    if spec.get("type") == "ExternalName" and before.get("type") != "ExternalName":
        spec.pop("internalTrafficPolicy", None)
    if spec.get("type") != "LoadBalancer" and before.get("type") == "LoadBalancer":
        spec.pop("allocateLoadBalancerNodePorts", None)


def allocate(service: Json, context: Context, old: Json | None = None) -> None:
    """Set the address and the node ports that the type of a Service needs."""
    spec, before = service["spec"], (old or {}).get("spec") or {}
    if spec["type"] == "ExternalName":
        return
    _set_families(spec)
    if not spec.get("clusterIP") and spec.get("clusterIPs"):
        spec["clusterIP"] = spec["clusterIPs"][0]
    wanted = spec.get("clusterIP") or ""
    if wanted and wanted != HEADLESS and not is_ip(wanted):
        spec["clusterIPs"] = spec.get("clusterIPs") or [wanted]
        return  # validation reports it
    if wanted not in {HEADLESS, before.get("clusterIP") or HEADLESS}:
        spec["clusterIP"] = context.cluster_ip(service["metadata"], spec.get("clusterIP") or "")
    if not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if _needs_node_ports(spec):
        owned = {port.get("nodePort") for port in before.get("ports") or []} - {None}
        for port in spec.get("ports") or []:
            if port.get("nodePort") not in owned:
                wanted = port.get("nodePort") or 0
                port["nodePort"] = context.node_port(service["metadata"], wanted)


def _set_families(spec: Json) -> None:
    headless_without_selector = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    usual = "RequireDualStack" if headless_without_selector else "SingleStack"
    spec["ipFamilyPolicy"] = spec.get("ipFamilyPolicy") or usual
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv4", "IPv6"] if headless_without_selector else ["IPv4"]


def _needs_node_ports(spec: Json) -> bool:
    if spec.get("type") == "NodePort":
        return True
    return (
        spec.get("type") == "LoadBalancer"
        and spec.get("allocateLoadBalancerNodePorts") is not False
    )
