"""Helpers that build the JSON of containers and Pods.

Builders first copy the user's template (`copy_json`), so that cached objects are never modified.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]

RAY_CONTAINER = 0
"""The Ray container is always the first, as in KubeRay."""


def copy_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_json(item) for item in value]
    return value


def ray_container(pod_spec: Mapping[str, Any]) -> Json:
    container: Json = pod_spec["containers"][RAY_CONTAINER]
    return container


# ── environment ──────────────────────────────────────────────────────────────────────────


def env_value(name: str, value: str) -> Json:
    return {"name": name, "value": value}


def env_from_field(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def env_from_label(name: str, label: str) -> Json:
    return env_from_field(name, f"metadata.labels['{label}']")


def has_env(container: Mapping[str, Any], name: str) -> bool:
    return any(one.get("name") == name for one in container.get("env") or ())


def add_env(container: Json, entries: Iterable[Mapping[str, Any]]) -> None:
    """Append entries, also for existing names: in the kubelet the last wins."""
    added = [copy_json(entry) for entry in entries]
    if added:
        container["env"] = [*(container.get("env") or ()), *added]


def add_missing_env(container: Json, entries: Iterable[Mapping[str, Any]]) -> None:
    add_env(container, [entry for entry in entries if not has_env(container, entry["name"])])


# ── volumes ──────────────────────────────────────────────────────────────────────────────


def has_mount_at(container: Mapping[str, Any], path: str) -> bool:
    return any(one.get("mountPath") == path for one in container.get("volumeMounts") or ())


def has_mount_of(container: Mapping[str, Any], volume: str) -> bool:
    return any(one.get("name") == volume for one in container.get("volumeMounts") or ())


def add_mount(container: Json, mount: Json) -> None:
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def add_volume(pod_spec: Json, volume: Json) -> None:
    """Add the volume, unless the user has one of that name."""
    volumes = pod_spec.get("volumes") or []
    if not any(one.get("name") == volume["name"] for one in volumes):
        pod_spec["volumes"] = [*volumes, volume]


# ── ports and resources ──────────────────────────────────────────────────────────────────


def find_port(container: Mapping[str, Any], name: str, default: int) -> int:
    for port in container.get("ports") or ():
        if port.get("name") == name:
            return int(port["containerPort"])
    return default


def limits_equal_requests(cpu: str, memory: str) -> Json:
    return {"limits": {"cpu": cpu, "memory": memory}, "requests": {"cpu": cpu, "memory": memory}}
