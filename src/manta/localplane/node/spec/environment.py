"""The environment variables of a container: values, references, Services, `$(VAR)`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from manta.api.core import Service
from manta.api.quantity import Quantity
from manta.localplane.node.spec.pod_spec import (
    Container,
    EnvFrom,
    EnvVar,
    KeySelector,
    NodePod,
    Quantities,
    ResourceFieldRef,
)

_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class ConfigError(Exception):
    """The Pod refers to something that does not exist; the container shows CreateContainerConfigError."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The ConfigMaps and Secrets that the Pod refers to; missing ones are left out."""

    config_maps: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """The node and addresses of a Pod."""

    node_name: str
    host_address: str
    address: str
    allocatable: Quantities


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace `$(VAR)` and `$$`; references to undefined variables stay as written."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return env.get(match[1], match[0])

    return _REFERENCE.sub(replacement, text)


def command_line(
    container: Container,
    entrypoint: tuple[str, ...],
    command: tuple[str, ...],
    env: Mapping[str, str],
) -> list[str]:
    """`command` replaces the image's entrypoint and drops its command; `args` replace its command."""
    if container.command:
        words = container.command + container.args
    else:
        words = entrypoint + (container.args or command)
    return [expand(word, env) for word in words]


def container_environment(
    pod: NodePod,
    container: Container,
    place: PodPlacement,
    sources: Sources,
    services: Iterable[Service],
) -> dict[str, str]:
    """Variables of Services, then envFrom, then env; later ones win and can refer to earlier ones.

    Raises ConfigError for a reference to something that does not exist."""
    env = service_variables(pod, services)
    for source in container.env_from:
        env |= _variables_from(source, sources)
    for variable in container.env:
        value = _value(variable, pod, container, place, sources, env)
        if value is not None:
            env[variable.name] = value
    return env


def _variables_from(source: EnvFrom, sources: Sources) -> dict[str, str]:
    if (reference := source.config_map_ref) is not None:
        kind, known = "configmap", sources.config_maps.get(reference.name)
    elif (reference := source.secret_ref) is not None:
        kind, known = "secret", sources.secrets.get(reference.name)
    else:
        return {}
    if known is None:
        if reference.optional:
            return {}
        raise ConfigError(f'{kind} "{reference.name}" not found')
    return {source.prefix + key: value.decode(errors="replace") for key, value in known.items()}


def _value(
    variable: EnvVar,
    pod: NodePod,
    container: Container,
    place: PodPlacement,
    sources: Sources,
    env: Mapping[str, str],
) -> str | None:
    """None for an optional reference to something that does not exist."""
    source = variable.value_from
    if source is None:
        return expand(variable.value, env)
    if source.field_ref is not None:
        return field_value(pod, source.field_ref.field_path, place)
    if source.resource_field_ref is not None:
        return resource_value(pod, container, source.resource_field_ref, place)
    if source.config_map_key_ref is not None:
        return _key_value("configmap", source.config_map_key_ref, sources.config_maps)
    if source.secret_key_ref is not None:
        return _key_value("secret", source.secret_key_ref, sources.secrets)
    return ""


def _key_value(
    kind: str, selector: KeySelector, known: Mapping[str, Mapping[str, bytes]]
) -> str | None:
    content = known.get(selector.name)
    if content is not None and selector.key in content:
        return content[selector.key].decode(errors="replace")
    if selector.optional:
        return None
    if content is None:
        raise ConfigError(f'{kind} "{selector.name}" not found')
    raise ConfigError(f"couldn't find key {selector.key} in {kind} {selector.name}")


def field_value(pod: NodePod, path: str, place: PodPlacement) -> str:
    """The value of a `fieldRef`. Raises ConfigError for an unknown path."""
    meta = pod.metadata
    if match := _SUBSCRIPT.fullmatch(path):
        table = meta.labels if match[1] == "labels" else meta.annotations
        return table.get(match[2], "")
    simple = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "metadata.labels": _as_lines(meta.labels),
        "metadata.annotations": _as_lines(meta.annotations),
        "spec.nodeName": place.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": place.host_address,
        "status.hostIPs": place.host_address,
        "status.podIP": place.address,
        "status.podIPs": place.address,
    }
    if path not in simple:
        raise ConfigError(f'fieldPath "{path}" is not supported')
    return simple[path]


def _as_lines(table: Mapping[str, str]) -> str:
    return "\n".join(f'{key}="{value}"' for key, value in sorted(table.items()))


def resource_value(
    pod: NodePod, container: Container, reference: ResourceFieldRef, place: PodPlacement
) -> str:
    """An amount in units of the divisor, rounded up. A missing limit is the node's allocatable."""
    named = reference.container_name
    chosen = next((one for one in pod.containers() if one.name == named), container)
    side, _, resource = reference.resource.partition(".")
    limits, requests = chosen.resources.limits, chosen.resources.requests
    amount = (limits if side == "limits" else requests).get(resource)
    if amount is None:
        amount = place.allocatable.get(resource, 0) if side == "limits" else limits.get(resource, 0)
    quantity = Quantity.parse(amount)
    divisor = Quantity.parse(reference.divisor or "1")
    nano = divisor.nano or Quantity.parse("1").nano
    return str(-(-quantity.nano // nano))


# ── Services ─────────────────────────────────────────────────────────────────────────────
def service_variables(pod: NodePod, services: Iterable[Service]) -> dict[str, str]:
    """The variables of the Service `kubernetes` and, with enableServiceLinks, of the namespace."""
    env: dict[str, str] = {}
    for service in services:
        own = service.metadata.namespace == pod.metadata.namespace and pod.spec.enable_service_links
        master = service.metadata.key == ("default", "kubernetes")
        if (own or master) and service.spec.cluster_ip not in ("", "None"):
            env |= _variables_of(service)
    return env


def _variables_of(service: Service) -> dict[str, str]:
    name = service.metadata.name.upper().replace("-", "_")
    address = service.spec.cluster_ip
    if not service.spec.ports:
        return {}
    first = service.spec.ports[0]
    url = f"{first.protocol.lower()}://{address}:{first.port}"
    env = {
        f"{name}_SERVICE_HOST": address,
        f"{name}_SERVICE_PORT": str(first.port),
        f"{name}_PORT": url,
    }
    for port in service.spec.ports:
        if port.name:
            env[f"{name}_SERVICE_PORT_{port.name.upper().replace('-', '_')}"] = str(port.port)
        prefix = f"{name}_PORT_{port.port}_{port.protocol.upper()}"
        env |= {
            prefix: f"{port.protocol.lower()}://{address}:{port.port}",
            f"{prefix}_PROTO": port.protocol.lower(),
            f"{prefix}_PORT": str(port.port),
            f"{prefix}_ADDR": address,
        }
    return env
