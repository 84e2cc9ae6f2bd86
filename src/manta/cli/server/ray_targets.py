"""`NAME` and `TYPE/NAME` of Ray objects, and the RayCluster behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS, RAY_RESOURCES, RAY_SERVICES
from manta.api.resources import Resource
from manta.api.usage import UsageError
from manta.kube.client import Client
from manta.kube.errors import MantaError

KINDS: Final[Mapping[str, Resource]] = {
    word: one
    for one in RAY_RESOURCES
    for word in (one.kind.lower(), one.plural, one.group_resource)
}


class NoClusterError(MantaError):
    """The object has no RayCluster yet, or no head."""


@dataclass(frozen=True, slots=True)
class RayObject:
    resource: Resource
    key: Key

    def __str__(self) -> str:
        return f"{self.resource.kind.lower()}/{self.key.name}"


def parse_target(
    text: str, namespace: str, kinds: tuple[Resource, ...] = RAY_RESOURCES
) -> RayObject:
    """A RayCluster if the type is left out. Raises UsageError for a type that is not in `kinds`."""
    kind, slash, name = text.partition("/")
    if not slash:
        return RayObject(RAY_CLUSTERS, Key(namespace, text))
    resource = KINDS.get(kind.lower())
    if resource not in kinds:
        known = ", ".join(one.kind.lower() for one in kinds)
        raise UsageError(f"{text}: unsupported resource type {kind!r}: use one of {known}")
    if not name or "/" in name:
        raise UsageError(f"{text}: write it as NAME or TYPE/NAME")
    return RayObject(resource, Key(namespace, name))


async def cluster_of(client: Client, target: RayObject) -> str:
    """The name of the RayCluster of a target. Raises NoClusterError, NotFound."""
    if target.resource == RAY_CLUSTERS:
        await client.get(RAY_CLUSTERS, target.key)
        return target.key.name
    found = await client.get(target.resource, target.key)
    name = cluster_name(target.resource, found.get("status") or {})
    if not name:
        raise NoClusterError(f"{target} has no RayCluster yet: see kubectl ray status {target}")
    return name


def cluster_name(resource: Resource, status: Mapping[str, Any]) -> str:
    if resource == RAY_JOBS:
        return str(status.get("rayClusterName") or "")
    if resource == RAY_SERVICES:
        return str((status.get("activeServiceStatus") or {}).get("rayClusterName") or "")
    return ""
