"""Roles, networking and autoscaling."""

from __future__ import annotations

from manta.api.names import label_value_errors, qualified_name_errors
from manta.localplane.apiserver.builtin_kinds.checks import rules
from manta.localplane.apiserver.builtin_kinds.checks.rules import Causes, Json
from manta.localplane.apiserver.builtin_kinds.defaults.objects import RBAC
from manta.localplane.apiserver.schema.causes import (
    Cause,
    compact_json,
    forbidden,
    invalid,
    not_supported,
    required,
)

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


# ── roles ────────────────────────────────────────────────────────────────────────────────
def check_role(role: Json, _: Json | None) -> Causes:
    for index, rule in enumerate(role.get("rules") or []):
        yield from _check_rule(rule, f"rules[{index}]", namespaced=True)


def check_cluster_role(role: Json, _: Json | None) -> Causes:
    for index, rule in enumerate(role.get("rules") or []):
        yield from _check_rule(rule, f"rules[{index}]", namespaced=False)


def _check_rule(rule: Json, field: str, *, namespaced: bool) -> Causes:
    if not rule.get("verbs"):
        yield required(f"{field}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            yield invalid(f"{field}.nonResourceURLs", urls, detail)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(f"{field}.nonResourceURLs", urls, detail)
        return
    if not rule.get("apiGroups"):
        yield required(f"{field}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{field}.resources", "resource rules must supply at least one resource")


def check_role_binding(binding: Json, old: Json | None) -> Causes:
    yield from _check_binding(binding, old, ("Role", "ClusterRole"), namespaced=True)


def check_cluster_role_binding(binding: Json, old: Json | None) -> Causes:
    yield from _check_binding(binding, old, ("ClusterRole",), namespaced=False)


def _check_binding(
    binding: Json, old: Json | None, kinds: tuple[str, ...], *, namespaced: bool
) -> Causes:
    role = binding.get("roleRef") or {}
    if role.get("apiGroup") != RBAC:
        yield not_supported("roleRef.apiGroup", role.get("apiGroup", ""), (RBAC,))
    if role.get("kind") not in kinds:
        yield not_supported("roleRef.kind", role.get("kind", ""), kinds)
    if not role.get("name"):
        yield required("roleRef.name")
    for index, subject in enumerate(binding.get("subjects") or []):
        yield from _check_subject(subject, f"subjects[{index}]", namespaced=namespaced)
    if old is not None and role != old.get("roleRef"):
        # kube-apiserver shows its internal form of the reference here.
        names = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
        shown = ",".join(f'"{name}":{compact_json(role.get(key, ""))}' for name, key in names)
        message = f"Invalid value: {{{shown}}}: cannot change roleRef"
        yield Cause("FieldValueInvalid", message, "roleRef")


def _check_subject(subject: Json, field: str, *, namespaced: bool) -> Causes:
    if not subject.get("name"):
        yield required(f"{field}.name")
    kind, group = subject.get("kind", ""), subject.get("apiGroup", "")
    if kind == "ServiceAccount":
        if subject.get("name"):
            yield from rules.subdomain(f"{field}.name", subject["name"])
        if group:
            yield not_supported(f"{field}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            yield required(f"{field}.namespace")
    elif kind in {"User", "Group"}:
        if group != RBAC:
            yield not_supported(f"{field}.apiGroup", group, (RBAC,))
    else:
        yield not_supported(f"{field}.kind", kind, ("ServiceAccount", "User", "Group"))


# ── networking ───────────────────────────────────────────────────────────────────────────
def check_ingress(ingress: Json, _: Json | None) -> Causes:
    spec = ingress.get("spec") or {}
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        yield invalid("spec", None, "either `defaultBackend` or `rules` must be specified")
    if spec.get("defaultBackend") is not None:
        yield from _check_backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or []):
        yield from _check_ingress_rule(rule, f"spec.rules[{index}]")
    if spec.get("ingressClassName") is not None:
        yield from rules.subdomain("spec.ingressClassName", spec["ingressClassName"])


def _check_ingress_rule(rule: Json, field: str) -> Causes:
    host = rule.get("host", "")
    if host and rules.is_ip(host):
        yield invalid(f"{field}.host", host, "must be a DNS name, not an IP address")
    if host:
        yield from rules.subdomain(f"{field}.host", host.removeprefix("*."))
    if rule.get("http") is None:
        return
    paths = rule["http"].get("paths") or []
    if not paths:
        yield required(f"{field}.http.paths")
    for index, path in enumerate(paths):
        yield from _check_path(path, f"{field}.http.paths[{index}]")


def _check_path(path: Json, field: str) -> Causes:
    kind, text = path.get("pathType"), path.get("path", "")
    if kind is None:
        yield required(f"{field}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield not_supported(f"{field}.pathType", kind, _PATH_TYPES)
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(f"{field}.path", text, "must be an absolute path")
    yield from _check_backend(path.get("backend") or {}, f"{field}.backend")


def _check_backend(backend: Json, field: str) -> Causes:
    service, resource = backend.get("service"), backend.get("resource")
    if resource is not None and service is not None:
        detail = "cannot set both resource and service backends"
        yield invalid(field, "", detail)
    elif resource is None and service is None:
        yield invalid(field, "", "resource or service backend is required")
    elif service is not None:
        yield from _check_service_backend(service, f"{field}.service")


def _check_service_backend(service: Json, field: str) -> Causes:
    if not service.get("name"):
        yield required(f"{field}.name")
    port = service.get("port") or {}
    if port.get("name") and port.get("number"):
        yield invalid(field, "", "cannot set both port name & port number")
    elif port.get("name"):
        yield from rules.all_invalid(
            f"{field}.port.name", port["name"], rules.port_name_errors(port["name"])
        )
    elif port.get("number"):
        yield from rules.port_number(f"{field}.port.number", port["number"])
    else:
        yield required(field, "port name or number is required")


def check_network_policy(policy: Json, _: Json | None) -> Causes:
    spec = policy.get("spec") or {}
    yield from rules.selector("spec.podSelector", spec.get("podSelector"))
    for name in ("ingress", "egress"):
        for index, rule in enumerate(spec.get(name) or []):
            for number, port in enumerate(rule.get("ports") or []):
                field = f"spec.{name}[{index}].ports[{number}]"
                if port.get("port") is not None:
                    yield from rules.port_number_or_name(f"{field}.port", port["port"])
                yield from rules.protocol(f"{field}.protocol", port.get("protocol", ""))


# ── nodes ────────────────────────────────────────────────────────────────────────────────
def check_node(node: Json, old: Json | None) -> Causes:
    taints = (node.get("spec") or {}).get("taints") or []
    if old is not None and taints == ((old.get("spec") or {}).get("taints") or []):
        return
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        field = f"metadata.taints[{index}]"  # the path that kube-apiserver names
        key, value, effect = (taint.get(name) or "" for name in ("key", "value", "effect"))
        yield from rules.all_invalid(f"{field}.key", key, qualified_name_errors(key))
        yield from rules.all_invalid(f"{field}.value", value, label_value_errors(value))
        if not effect:
            yield required(f"{field}.effect")
        elif effect not in _EFFECTS:
            yield not_supported(f"{field}.effect", effect, _EFFECTS)
        if (key, effect) in seen:
            shown = compact_json({"key": key, "value": value, "effect": effect})
            detail = "taints must be unique by key and effect pair"
            yield Cause("FieldValueDuplicate", f"Duplicate value: {shown}: {detail}", field)
        seen.add((key, effect))


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


# ── autoscaling ──────────────────────────────────────────────────────────────────────────
def check_autoscaler(autoscaler: Json, _: Json | None) -> Causes:
    spec = autoscaler.get("spec") or {}
    minimum, maximum = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if minimum is not None and minimum < 1:
        yield invalid("spec.minReplicas", minimum, "must be greater than or equal to 1")
    if maximum < 1:
        yield invalid("spec.maxReplicas", maximum, "must be greater than 0")
    elif minimum is not None and maximum < minimum:
        yield invalid("spec.maxReplicas", maximum, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    for name in ("kind", "name"):
        if not target.get(name):
            yield required(f"spec.scaleTargetRef.{name}")
    if "/" not in target.get("apiVersion", ""):
        detail = "apiVersion must specify API group"
        yield invalid("spec.scaleTargetRef.apiVersion", target.get("apiVersion", ""), detail)
    kinds = {metric.get("type") for metric in spec.get("metrics") or []}
    if minimum == 0 and not kinds & {"Object", "External"}:
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden("spec.metrics", detail)
