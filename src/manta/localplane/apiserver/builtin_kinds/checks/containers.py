"""Containers: names, images, ports, environment, mounts, resources, probes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from manta.api.names import qualified_name_errors
from manta.api.quantity import Quantity
from manta.localplane.apiserver.builtin_kinds.checks import rules
from manta.localplane.apiserver.builtin_kinds.checks.rules import Causes, Json
from manta.localplane.apiserver.builtin_kinds.checks.volumes import relative_path
from manta.localplane.apiserver.schema.causes import (
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)

_ENVIRONMENT_NAME = re.compile(r"[ -<>-~]+")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_SUBSCRIPT = re.compile(r"metadata\.(?:labels|annotations)\['[^']*'\]")
_FIELD_PATHS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_OTHER_FIELD_PATHS = frozenset(
    {
        "metadata.annotations",
        "metadata.labels",
        "spec.hostNetwork",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.nominatedNodeName",
        "status.phase",
    }
)
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")


def check_host_ports(containers: list[Json], path: str) -> Causes:
    """Each host port may be used by one container only."""
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or []):
            if not port.get("hostPort"):
                continue
            address = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if address in taken:
                yield duplicate(f"{path}[{index}].ports[{number}].hostPort", address)
            taken.add(address)


def check_containers(containers: list[Json], path: str, volumes: frozenset[str]) -> Causes:
    names: set[str] = set()
    for index, container in enumerate(containers):
        field = f"{path}[{index}]"
        yield from _check_common(container, field, volumes)
        name = container.get("name", "")
        if name in names:
            yield duplicate(f"{field}.name", name)
        names.add(name)
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            yield from _check_probe(container.get(probe), f"{field}.{probe}")
        yield from _check_lifecycle(container.get("lifecycle"), f"{field}.lifecycle")


def check_init_containers(
    containers: list[Json], path: str, volumes: frozenset[str], taken: frozenset[str]
) -> Causes:
    names = set(taken)
    for index, container in enumerate(containers):
        field = f"{path}[{index}]"
        yield from _check_common(container, field, volumes)
        name = container.get("name", "")
        if name and name in names:
            yield duplicate(f"{field}.name", name)
        names.add(name)
        if container.get("restartPolicy") == "Always":
            continue
        for member in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if container.get(member) is not None:
                detail = "may not be set for init containers without restartPolicy=Always"
                yield forbidden(f"{field}.{member}", detail)


def _check_common(container: Json, field: str, volumes: frozenset[str]) -> Causes:
    name = container.get("name", "")
    yield from rules.label(f"{field}.name", name) if name else iter([required(f"{field}.name")])
    if not container.get("image"):
        yield required(f"{field}.image")
    policy = container.get("terminationMessagePolicy", "File")
    yield from rules.one_of(f"{field}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    yield from _check_ports(container.get("ports") or [], f"{field}.ports")
    yield from _check_environment(container.get("env") or [], f"{field}.env")
    yield from check_mounts(container.get("volumeMounts") or [], f"{field}.volumeMounts", volumes)
    pull = container.get("imagePullPolicy", "Always")
    yield from rules.one_of(f"{field}.imagePullPolicy", pull, _PULL_POLICIES)
    yield from check_resources(container.get("resources") or {}, f"{field}.resources")
    context = container.get("securityContext") or {}
    for name in ("runAsUser", "runAsGroup"):
        yield from rules.user_or_group(f"{field}.securityContext.{name}", context.get(name))


def _check_ports(ports: list[Json], path: str) -> Causes:
    names: set[str] = set()
    for index, port in enumerate(ports):
        field = f"{path}[{index}]"
        name = port.get("name", "")
        errors = rules.port_name_errors(name) if name else []
        yield from rules.all_invalid(f"{field}.name", name, errors)
        if name and not errors:
            if name in names:
                yield duplicate(f"{field}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            yield required(f"{field}.containerPort")
        else:
            yield from rules.port_number(f"{field}.containerPort", port["containerPort"])
        if port.get("hostPort"):
            yield from rules.port_number(f"{field}.hostPort", port["hostPort"])
        yield from rules.protocol(f"{field}.protocol", port.get("protocol", ""))


def _check_environment(variables: list[Json], path: str) -> Causes:
    for index, variable in enumerate(variables):
        field, name = f"{path}[{index}]", variable.get("name", "")
        if not name:
            yield required(f"{field}.name")
        elif not _ENVIRONMENT_NAME.fullmatch(name):
            yield invalid(
                f"{field}.name",
                name,
                "a valid environment variable name must consist only of printable ASCII "
                "characters other than '='",
            )
        source = variable.get("valueFrom")
        if source is not None:
            yield from _check_source(source, variable, f"{field}.valueFrom")


def _check_source(source: Json, variable: Json, field: str) -> Causes:
    given = [name for name in _SOURCES if source.get(name) is not None]
    for name in ("configMapKeyRef", "secretKeyRef"):
        if source.get(name) is not None and not source[name].get("key"):
            yield required(f"{field}.{name}.key")
    if source.get("fieldRef") is not None:
        yield from _check_field_path(source["fieldRef"], f"{field}.fieldRef.fieldPath")
    if not given:
        names = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield invalid(field, "", f"must specify one of: {names}")
    elif variable.get("value"):
        yield invalid(field, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(field, "", "may not have more than one field specified at a time")


def _check_field_path(reference: Json, field: str) -> Causes:
    path = reference.get("fieldPath", "")
    if not path:
        yield required(field)
    elif _SUBSCRIPT.fullmatch(path) or path in _FIELD_PATHS:
        return
    elif path in _OTHER_FIELD_PATHS:
        yield not_supported(field, path, _FIELD_PATHS)
    else:
        detail = f"error converting fieldPath: field label not supported: {path}"
        yield invalid(field, path, detail)


def check_mounts(mounts: list[Json], path: str, volumes: frozenset[str]) -> Causes:
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        field, name = f"{path}[{index}]", mount.get("name", "")
        where = mount.get("mountPath", "")
        if not name:
            yield required(f"{field}.name")
        if name not in volumes:
            yield not_found(f"{field}.name", name)
        if not where:
            yield required(f"{field}.mountPath")
        if where in seen:
            yield invalid(f"{field}.mountPath", where, "must be unique")
        seen.add(where)
        yield from _check_sub_path(mount, path, field)


def _check_sub_path(mount: Json, path: str, field: str) -> Causes:
    """kube-apiserver names the field without its index here."""
    below, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    yield from relative_path(f"{path}.subPath", below)
    if expression and below:
        detail = "subPathExpr and subPath are mutually exclusive"
        yield invalid(f"{field}.subPathExpr", expression, detail)
    yield from relative_path(f"{path}.subPathExpr", expression)


# ── resources ────────────────────────────────────────────────────────────────────────────
def check_resources(resources: Json, field: str) -> Causes:
    limits: Mapping[str, str] = resources.get("limits") or {}
    requests: Mapping[str, str] = resources.get("requests") or {}
    for name, text in limits.items():
        yield from _check_amount(name, text, f"{field}.limits[{name}]")
    for name, text in requests.items():
        yield from _check_amount(name, text, f"{field}.requests[{name}]")
        amount = Quantity.parse(text)
        if name in limits:
            limit = Quantity.parse(limits[name])
            if amount != limit and not _may_overcommit(name):
                detail = f"must be equal to {name} limit of {limit}"
                yield invalid(f"{field}.requests", str(amount), detail)
            elif amount > limit:
                detail = f"must be less than or equal to {name} limit of {limit}"
                yield invalid(f"{field}.requests", str(amount), detail)
        elif not _may_overcommit(name):
            detail = "Limit must be set for non overcommitable resources"
            yield required(f"{field}.limits", detail)


def _check_amount(name: str, text: str, field: str) -> Causes:
    yield from rules.all_invalid(field, name, qualified_name_errors(name))
    if "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith("hugepages-"):
        yield invalid(field, name, "must be a standard resource type or fully qualified")
        yield invalid(field, name, "must be a standard resource for containers")
    amount = Quantity.parse(text)
    if amount.nano < 0:
        yield invalid(field, str(amount), "must be greater than or equal to 0")
    if _is_extended(name) and amount.nano % 10**9:
        yield invalid(field, text, "must be an integer")


def _is_extended(name: str) -> bool:
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")


def _may_overcommit(name: str) -> bool:
    return not _is_extended(name) and not name.startswith("hugepages-")


# ── probes ───────────────────────────────────────────────────────────────────────────────
def _check_probe(probe: Json | None, field: str) -> Causes:
    if probe is None:
        return
    yield from _check_handler(probe, field, _HANDLERS)
    for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds"):
        yield from rules.not_negative(f"{field}.{name}", probe.get(name))
    for name in ("successThreshold", "failureThreshold"):
        yield from rules.not_negative(f"{field}.{name}", probe.get(name))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield invalid(f"{field}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if not field.endswith("readinessProbe") and probe.get("successThreshold", 1) != 1:
        yield invalid(f"{field}.successThreshold", probe["successThreshold"], "must be 1")


def _check_lifecycle(lifecycle: Json | None, field: str) -> Causes:
    for name in ("postStart", "preStop"):
        handler = (lifecycle or {}).get(name)
        if handler is not None:
            yield from _check_handler(handler, f"{field}.{name}", (*_HANDLERS[:3], "sleep"))


def _check_handler(handler: Json, field: str, kinds: tuple[str, ...]) -> Causes:
    given = [name for name in kinds if handler.get(name) is not None]
    if not given:
        yield required(field, "must specify a handler type")
    for name in given[:1]:
        if name == "exec" and not handler["exec"].get("command"):
            yield required(f"{field}.exec.command")
        if name in {"httpGet", "tcpSocket", "grpc"}:
            port = handler[name].get("port", 0)
            yield from rules.port_number_or_name(f"{field}.{name}.port", port)
    for name in given[1:]:
        yield forbidden(f"{field}.{name}", "may not specify more than 1 handler type")
