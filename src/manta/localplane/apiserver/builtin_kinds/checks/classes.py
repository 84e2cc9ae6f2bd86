"""RuntimeClasses, IngressClasses and StorageClasses."""

from __future__ import annotations

import re

from manta.api.names import dns1123_subdomain_errors, qualified_name_errors
from manta.localplane.apiserver.builtin_kinds.checks import rules
from manta.localplane.apiserver.builtin_kinds.checks.pods import check_tolerations
from manta.localplane.apiserver.builtin_kinds.checks.rules import Causes, Json
from manta.localplane.apiserver.builtin_kinds.names import path_segment_errors
from manta.localplane.apiserver.schema.causes import (
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)

_CONTROLLER_LIMIT = 250
_PATH_PATTERN = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_PARAMETER_BYTES = 256 * 1024
_PARAMETER_COUNT = 512
RECLAIM_POLICIES = ("Delete", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")


def check_runtime_class(runtime_class: Json, old: Json | None) -> Causes:
    handler = runtime_class.get("handler", "")
    if old is not None:
        yield from rules.immutable("handler", handler, old.get("handler", ""))
        return
    yield from rules.label("handler", handler)
    scheduling = runtime_class.get("scheduling") or {}
    yield from rules.labels("scheduling.nodeSelector", scheduling.get("nodeSelector"))
    yield from check_tolerations(scheduling.get("tolerations") or [], "scheduling.tolerations")


def check_ingress_class(ingress_class: Json, old: Json | None) -> Causes:
    spec = ingress_class.get("spec") or {}
    controller, field = spec.get("controller", ""), "spec.controller"
    if old is not None:
        before = (old.get("spec") or {}).get("controller", "")
        yield from rules.immutable(field, controller, before)
    if len(controller.encode()) > _CONTROLLER_LIMIT:
        yield too_long(field, _CONTROLLER_LIMIT)
    yield from _check_prefixed_path(field, controller)
    if spec.get("parameters") is not None:
        yield from _check_parameters_reference(spec["parameters"], "spec.parameters")


def _check_prefixed_path(field: str, value: str) -> Causes:
    if not value:
        yield required(field)
        return
    host, _, path = value.partition("/")
    if not host or not path:
        yield invalid(field, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    yield from rules.all_invalid(field, host, dns1123_subdomain_errors(host))
    if not re.fullmatch(_PATH_PATTERN, path):
        yield invalid(field, path, f"Invalid path (regex used for validation is '{_PATH_PATTERN}')")


def _check_parameters_reference(reference: Json, field: str) -> Causes:
    if reference.get("apiGroup") is not None:
        group = reference["apiGroup"]
        yield from rules.all_invalid(f"{field}.apiGroup", group, dns1123_subdomain_errors(group))
    for member in ("kind", "name"):
        if not reference.get(member):
            yield required(f"{field}.{member}")
        else:
            errors = path_segment_errors(reference[member])
            yield from rules.all_invalid(f"{field}.{member}", reference[member], errors)
    scope, namespace = reference.get("scope"), reference.get("namespace")
    if scope is None:
        yield required(f"{field}.scope")
    elif scope not in {"Cluster", "Namespace"}:
        yield not_supported(f"{field}.scope", scope, ("Cluster", "Namespace"))
    elif scope == "Namespace" and not namespace:
        detail = "`parameters.scope` is set to 'Namespace'"
        yield required(f"{field}.namespace", detail)
    elif scope == "Cluster" and namespace is not None:
        yield forbidden(f"{field}.namespace", "`parameters.scope` is set to 'Cluster'")


def check_storage_class(storage_class: Json, old: Json | None) -> Causes:
    provisioner = storage_class.get("provisioner", "")
    if old is not None:
        for member in ("parameters", "provisioner", "reclaimPolicy"):
            if (storage_class.get(member) or None) != (old.get(member) or None):
                yield forbidden(member, f"updates to {member} are forbidden.")
        before = old.get("volumeBindingMode")
        mode = storage_class.get("volumeBindingMode")
        yield from rules.immutable("volumeBindingMode", mode, before)
        return
    if not provisioner:
        yield required("provisioner")
    else:
        lowered = provisioner.lower()
        yield from rules.all_invalid("provisioner", lowered, qualified_name_errors(lowered))
    yield from _check_parameters(storage_class.get("parameters") or {})
    policy = storage_class.get("reclaimPolicy", "")
    if policy and policy not in RECLAIM_POLICIES:
        yield not_supported("reclaimPolicy", policy, RECLAIM_POLICIES)
    mode = storage_class.get("volumeBindingMode")
    if mode is not None and mode not in _BINDING_MODES:
        yield not_supported("volumeBindingMode", mode, _BINDING_MODES)


def _check_parameters(parameters: Json) -> Causes:
    if len(parameters) > _PARAMETER_COUNT:
        yield too_long("parameters", _PARAMETER_COUNT)
        return
    if "" in parameters:
        yield invalid("parameters", "", "field can not be empty.")
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > (
        _PARAMETER_BYTES
    ):
        yield too_long("parameters", _PARAMETER_BYTES)
